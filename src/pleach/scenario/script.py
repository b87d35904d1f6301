"""Scripts: a scenario without its clock, as one sequence of actions per actor.

    prologue   every client attaches, advertises and subscribes; run to quiet in one fixed order
    scripts    per actor its own actions in order of time; actors are not ordered against each other

Actors are clients (loads and steps) and brokers (crash and restart, and requests of an operator). A client's replies
are not part of its script: each may be sent at any time after the delivery that it answers. Links that a
reconfiguration may open exist from the beginning, empty.

Steps and settings that need a clock are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice, pairwise
from random import Random
from typing import Any, TypeAlias, assert_never

import msgspec

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Effect, Observe, Observed
from pleach.core.events.event import Event
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Message,
    Node,
    OperatorRequest,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
    RequestSwap,
    pack,
    unpack,
)
from pleach.core.overlay.registry import WAITING
from pleach.errors import ScenarioError
from pleach.scenario import model, steps
from pleach.scenario.clients import draw_attributes, initial_advertisements, publications, subscription_names
from pleach.scenario.overlay_steps import described, requests_by_step
from pleach.scenario.schedule import ExploreOptions
from pleach.scenario.values import Choice, Uniform

ACTIONS_MAX = 200  # of all actors; interleavings grow exponentially with them
DRAWS_SEED = 1  # loads draw as in a simulation with this seed
NO_DRAWS = Random(0)  # replies that draw are refused


# Actions -----------------------------------------------------------------------------------------------------


class Attaches(msgspec.Struct, frozen=True, tag=True):
    pass


class Publishes(msgspec.Struct, frozen=True, tag=True):
    attributes: dict[str, Any]
    payload: bytes = b""


class Subscribes(msgspec.Struct, frozen=True, tag=True):
    subscription: str
    filter: Filter


class Unsubscribes(msgspec.Struct, frozen=True, tag=True):
    subscription: str
    filter: Filter


class Advertises(msgspec.Struct, frozen=True, tag=True):
    filter: Filter


class Unadvertises(msgspec.Struct, frozen=True, tag=True):
    filter: Filter


class Crashes(msgspec.Struct, frozen=True, tag=True):
    """The broker loses its memory; every step was committed, so its disk holds its whole state."""


class Restarts(msgspec.Struct, frozen=True, tag=True):
    pass


class ScriptedRequests(msgspec.Struct, frozen=True, tag=True):
    """An operator asks the broker for an operation, once those that it depends on are done."""

    request: OperatorRequest
    after: tuple[str, ...] = ()


ClientAction: TypeAlias = Attaches | Publishes | Subscribes | Unsubscribes | Advertises | Unadvertises
BrokerAction: TypeAlias = Crashes | Restarts | ScriptedRequests
Action: TypeAlias = ClientAction | BrokerAction


def describe(action: Action) -> str:
    match action:
        case Publishes(attributes):
            return "publish " + ", ".join(f"{name}={value}" for name, value in attributes.items())
        case Subscribes(name, wanted):
            return f"subscribe {wanted.text} ({name})"
        case Unsubscribes(name, wanted):
            return f"unsubscribe {wanted.text} ({name})"
        case Advertises(advertised):
            return f"advertise {advertised.text}"
        case Unadvertises(advertised):
            return f"unadvertise {advertised.text}"
        case ScriptedRequests(request):
            return f"operation {request.operation}: {described(request)}"
        case Attaches() | Crashes() | Restarts():
            return type(action).__name__.lower().removesuffix("es").removesuffix("s")
        case _:
            assert_never(action)


# Scripts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    """`links` has both directions of every possible link, in the order in which the prologue hands over messages.

    `brokers` are those of the scenario, and those that join later.
    """

    scenario: model.Scenario
    options: ExploreOptions
    brokers: tuple[Node, ...]
    links: tuple[tuple[Node, Node], ...]
    prologue: tuple[tuple[Node, ClientAction], ...]
    actions: dict[Node, tuple[Action, ...]]  # per actor that has any

    def clients(self) -> dict[Node, ScriptedClient]:
        return {c.id: ScriptedClient(c) for c in self.scenario.clients}


def script_of(scenario: model.Scenario, options: ExploreOptions | None = None) -> Script:
    """Raises ScenarioError for what needs a clock."""
    options = options or ExploreOptions()
    _check(scenario, options)
    brokers = (*scenario.brokers, *(step.broker for step in scenario.steps if isinstance(step, steps.AddBroker)))
    timed: dict[Node, list[tuple[float, Action]]] = {}
    for at, actor, action in _all_actions(scenario):
        timed.setdefault(actor, []).append((at, action))
    actions = {}
    for actor in (*(c.id for c in scenario.clients), *brokers):
        if actor in timed:
            in_time = sorted(timed[actor], key=lambda timed_action: timed_action[0])
            actions[actor] = tuple(action for _, action in in_time)
    for broker in brokers:
        up_or_down = [action for action in actions.get(broker, ()) if not isinstance(action, ScriptedRequests)]
        if up_or_down and isinstance(up_or_down[-1], Crashes):
            raise ScenarioError(f"broker {broker!r} stays down: messages to it never arrive; add a `restart`")
        if any(
            isinstance(x, Crashes) and isinstance(y, ScriptedRequests) for x, y in pairwise(actions.get(broker, ()))
        ):
            raise ScenarioError(f"broker {broker!r} is down when it is asked for an operation; ask it before or after")
    return Script(scenario, options, brokers, _links(scenario), tuple(_prologue(scenario)), actions)


def _all_actions(scenario: model.Scenario) -> list[tuple[float, Node, Action]]:
    found = list(islice(_actions(scenario), ACTIONS_MAX + 1))
    if len(found) > ACTIONS_MAX:
        raise ScenarioError(
            f"more than {ACTIONS_MAX} actions: too many to try every order; set a `count` of 1 or 2 for each load"
        )
    return found


def _actions(scenario: model.Scenario) -> Iterator[tuple[float, Node, Action]]:
    """Steps before loads: where their times are equal, the simulator has the same order."""
    names = {c.id: subscription_names(scenario, c) for c in scenario.clients}
    asked = requests_by_step(scenario)
    for index, step in enumerate(scenario.steps):
        if index in asked:
            yield from ((step.at, broker, ScriptedRequests(request, after)) for broker, request, after in asked[index])
        else:
            yield step.at, *_action(step, names)
    for client in scenario.clients:
        for index in range(len(client.publish)):
            for load in publications(client, index, scenario.duration, f"{scenario.name}/{DRAWS_SEED}"):
                yield load.at, client.id, Publishes(load.attributes, load.payload)


def _action(step: steps.Step, names: dict[Node, dict[Filter, str]]) -> tuple[Node, Action]:
    match step:
        case steps.PublishStep(client=client, attributes=attributes):
            return client, Publishes(dict(attributes))
        case steps.SubscribeStep(client=client, filter=text):
            wanted = parse_filter(text)
            return client, Subscribes(names[client][wanted], wanted)
        case steps.UnsubscribeStep(client=client, filter=text):
            wanted = parse_filter(text)
            return client, Unsubscribes(names[client][wanted], wanted)
        case steps.AdvertiseStep(client=client, filter=text):
            return client, Advertises(parse_filter(text))
        case steps.UnadvertiseStep(client=client, filter=text):
            return client, Unadvertises(parse_filter(text))
        case steps.Crash(broker=broker):
            return broker, Crashes()
        case steps.Restart(broker=broker):
            return broker, Restarts()
        case steps.Cut() | steps.Heal() | steps.Slow() | steps.Partition() | steps.Destroy():
            raise _refused(step, "needs a clock; every delay is tried anyway")
        case steps.Drain():
            raise _refused(step, "is not needed: every quiet state is judged anyway")
        case _:
            raise _refused(step, "has no protocol here")


def _refused(step: steps.Step, reason: str) -> ScenarioError:
    name = type(step).__struct_config__.tag
    return ScenarioError(f"step `{name}` at {step.at:g} s {reason}; leave it out of what you explore")


def _prologue(scenario: model.Scenario) -> Iterator[tuple[Node, ClientAction]]:
    for client in scenario.clients:
        names = subscription_names(scenario, client)
        yield client.id, Attaches()
        for text in initial_advertisements(scenario, client):
            yield client.id, Advertises(parse_filter(text))
        for text in client.subscribe:
            wanted = parse_filter(text)
            yield client.id, Subscribes(names[wanted], wanted)


def _links(scenario: model.Scenario) -> tuple[tuple[Node, Node], ...]:
    """The initial links and those that steps may open, each once; those of clients come last."""
    tree = list(scenario.links)
    attached = [(c.id, c.broker) for c in scenario.clients]
    for broker, request, _ in chain.from_iterable(requests_by_step(scenario).values()):
        match request:
            case RequestSwap(_, a, b, c):
                tree += combinations((a, b, c), 2)
            case RequestExchange(_, path):
                tree.append((path[0], path[-1]))
            case RequestAdd(_, to):
                tree.append((broker, to))
            case RequestRemove():
                heirs = sorted({node for pair in tree if broker in pair for node in pair} - {broker})
                attached += [(c.id, heir) for c in scenario.clients if c.broker == broker for heir in heirs]
            case RequestMove(_, client, path):
                attached.append((client, path[-1]))
    known: dict[frozenset[Node], tuple[Node, Node]] = {}
    for pair in (*tree, *attached):
        known.setdefault(frozenset(pair), pair)
    return tuple(link for a, b in known.values() for link in ((a, b), (b, a)))


def _protocol(step: steps.Step, scenario: model.Scenario) -> str:
    match step:
        case steps.Swap():
            return scenario.exchange
        case steps.Exchange(protocol=protocol):
            return protocol or scenario.exchange
        case _:
            return ""


def _check(scenario: model.Scenario, options: ExploreOptions) -> None:
    if options.instant_clients and any(
        isinstance(step, steps.RemoveBroker | steps.MoveClient) for step in scenario.steps
    ):
        reason = "clients that go from one broker to another have two links, whose order counts"
        raise ScenarioError(f"{reason}: explore `remove_broker` and `move_client` without instant clients")
    waiting = [name for step in scenario.steps if (name := _protocol(step, scenario)) in WAITING]
    if waiting and not options.timers:
        reason = f"exchange = {waiting[0]!r} goes on only when a timer rings"
        raise ScenarioError(f"{reason}: explore it with timers (`--timers`)")
    if scenario.loss.default or any(loss for _, _, loss in scenario.loss.links):
        raise ScenarioError("`loss` needs draws; without a clock and a seed links are reliable; leave it out")
    if scenario.stabilise:
        raise ScenarioError("leases run out by a clock, and there is none; leave [stabilise] out")
    for client in scenario.clients:
        for reply in client.reply:
            if reply.probability != 1.0:
                reason = f"client {client.id!r} replies with probability {reply.probability:g}"
                raise ScenarioError(f"{reason}: a draw would need a seed; set it to 1")
            for name, value in reply.attributes.items():
                if isinstance(value, Uniform | Choice):
                    reason = f"client {client.id!r} draws {name!r} of its reply"
                    raise ScenarioError(f"{reason}: a draw would need a seed; give it a constant or a sequence")


# Clients -----------------------------------------------------------------------------------------------------


class ScriptedClientState(msgspec.Struct, array_like=True):
    client: bytes
    counts: list[int]  # answers so far, per reply rule
    owed: list[Publishes]  # answers that are not given yet, in order


class ScriptedClient:
    """A client with its reply rules: a machine that queues its replies until `answer` is called."""

    def __init__(self, described: model.ScenarioClient) -> None:
        self.name = described.id
        self._client = ClientMachine(described.id, described.broker, own_events=described.own_events)
        self._rules = [(parse_filter(reply.to), reply.attributes) for reply in described.reply]
        self._counts = [0] * len(self._rules)
        self._owed: list[Publishes] = []

    @property
    def owed(self) -> Sequence[Publishes]:
        return self._owed

    def perform(self, action: ClientAction) -> Sequence[Effect]:
        client = self._client
        match action:
            case Attaches():
                return client.attach()
            case Publishes(attributes, payload):
                return client.publish(attributes, payload)
            case Subscribes(name, wanted):
                return client.subscribe(name, wanted)
            case Unsubscribes(name):
                return client.unsubscribe(name)
            case Advertises(advertised):
                return client.advertise(advertised.text, advertised)
            case Unadvertises(advertised):
                return client.unadvertise(advertised.text)
            case _:
                assert_never(action)

    def answer(self) -> Sequence[Effect]:
        """Publish the oldest reply that is due."""
        return self.perform(self._owed.pop(0))

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        effects = self._client.handle(sender, message, now=now)
        for effect in effects:
            match effect:
                case Observe(kind=Observed.DELIVER, event=Event() as event):
                    self._note(event)
        return effects

    def _note(self, event: Event) -> None:
        for index, (wanted, attributes) in enumerate(self._rules):
            if wanted.matches(event.attributes):
                self._counts[index] += 1
                self._owed.append(Publishes(draw_attributes(attributes, NO_DRAWS, self._counts[index])))

    def capture(self) -> bytes:
        return pack(ScriptedClientState(self._client.capture(), self._counts, self._owed))

    def restore(self, data: bytes) -> None:
        state = unpack(data, ScriptedClientState)
        self._client.restore(state.client)
        self._counts, self._owed = state.counts, state.owed
