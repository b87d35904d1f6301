"""The steps of a scenario, checked in the order in which they happen.

The checks follow which brokers and clients exist, which brokers are down, and what was subscribed and advertised.
They do not follow the shape of the tree once a step has changed it: brokers refuse at run time what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.overlay.choice import CHOICES
from pleach.scenario.clients import initial_advertisements
from pleach.scenario.model import Scenario
from pleach.scenario.positions import FlawError, Path
from pleach.scenario.read import all_known, instead
from pleach.scenario.stabilise_settings import is_coloured
from pleach.scenario.steps import (
    AddBroker,
    AdvertiseStep,
    Corrupt,
    Crash,
    Cut,
    Destroy,
    Drain,
    Exchange,
    Garble,
    Heal,
    MoveClient,
    Partition,
    PublishStep,
    RemoveBroker,
    Restart,
    Slow,
    Step,
    SubscribeStep,
    Swap,
    UnadvertiseStep,
    UnsubscribeStep,
)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """By time; steps of one moment keep the order of the file."""
    return tuple(sorted(steps, key=lambda step: step.at))


def check_steps(scenario: Scenario) -> None:
    world = _World(scenario)
    for i, step in sorted(enumerate(scenario.steps), key=lambda numbered: numbered[1].at):
        path: Path = ("steps", i)
        if step.at > scenario.duration:
            reason = f"`at` is {step.at:g} s, after the end at `duration` = {scenario.duration:g} s"
            raise FlawError((*path, "at"), f"{reason}; move the step or prolong the scenario")
        world.apply(step, path)


class _World:
    """Brokers, clients and links at one moment, as far as the file determines them."""

    def __init__(self, scenario: Scenario) -> None:
        self._brokers = set(scenario.brokers)
        self._leaving: set[str] = set()  # may still be there, and be struck
        self._broker_of = {client.id: client.broker for client in scenario.clients}
        self._links = {frozenset(link) for link in scenario.links}
        self._links_known = scenario.improve is None  # until the tree changes
        self._down: set[str] = set()
        self._dead: set[str] = set()  # for good
        self._finds_back = scenario.stabilise is not None
        self._has_standbys = scenario.standby is not None
        self._machines = set(scenario.standby.machines) if scenario.standby else set()
        self._is_coloured = is_coloured(scenario)
        self._subscribed = {client.id: _filters(client.subscribe) for client in scenario.clients}
        self._advertised = {
            client.id: _filters(initial_advertisements(scenario, client)) for client in scenario.clients
        }

    def apply(self, step: Step, path: Path) -> None:
        match step:
            case Swap() | Exchange() | AddBroker() | RemoveBroker():
                self._change_tree(step, path)
            case MoveClient() | PublishStep():
                self._act(step, path)
            case SubscribeStep() | UnsubscribeStep() | AdvertiseStep() | UnadvertiseStep():
                self._declare(step, path)
            case Crash() | Restart() | Corrupt():
                self._strike_broker(step, path)
            case Destroy() | Partition():
                self._strike_machines(step, path)
            case Cut() | Heal() | Slow() | Garble():
                self._need_link(step.link, (*path, "link"))
            case Drain():
                pass
            case _:
                assert_never(step)

    def _change_tree(self, step: Swap | Exchange | AddBroker | RemoveBroker, path: Path) -> None:
        match step:
            case Swap():
                self._need_brokers(step.brokers, (*path, "brokers"))
                self._links_known = False
            case Exchange():
                self._need_brokers(step.remove, (*path, "remove"))
                self._need_brokers(step.add, (*path, "add"))
                _need_protocol(step.protocol, (*path, "protocol"))
                self._links_known = False
            case AddBroker():
                self._need_broker(step.to, (*path, "to"))
                self._add(step.broker, step.to, (*path, "broker"))
            case RemoveBroker():
                self._need_broker(step.broker, (*path, "broker"))
                self._brokers.remove(step.broker)
                self._leaving.add(step.broker)
                self._links_known = False

    def _add(self, broker: str, to: str, path: Path) -> None:
        if broker in self._brokers:
            raise FlawError(path, f"broker {broker!r} is there already; choose another name")
        if broker in self._broker_of:
            raise FlawError(path, f"broker {broker!r} is named as a client; nodes share one name space")
        self._brokers.add(broker)
        self._leaving.discard(broker)
        self._links.add(frozenset((broker, to)))

    def _act(self, step: MoveClient | PublishStep, path: Path) -> None:
        self._need_client(step.client, path)
        if isinstance(step, MoveClient):
            self._need_broker(step.to, (*path, "to"))
            _need_protocol(step.protocol, (*path, "protocol"), tuple(MoveProtocol))
            self._broker_of[step.client] = step.to

    def _declare(self, step: SubscribeStep | UnsubscribeStep | AdvertiseStep | UnadvertiseStep, path: Path) -> None:
        self._need_client(step.client, path)
        declared = parse_filter(step.filter)
        match step:
            case SubscribeStep():
                self._subscribed[step.client].add(declared)
            case AdvertiseStep():
                self._advertised[step.client].add(declared)
            case UnsubscribeStep() if declared not in self._subscribed[step.client]:
                raise FlawError((*path, "filter"), f"client {step.client!r} has not subscribed to this by then")
            case UnadvertiseStep() if declared not in self._advertised[step.client]:
                raise FlawError((*path, "filter"), f"client {step.client!r} has not advertised this by then")

    def _strike_broker(self, step: Crash | Restart | Corrupt, path: Path) -> None:
        where = (*path, "broker")
        self._need_known(step.broker, where)
        match step:
            case Crash():
                if step.broker in self._down and not self._has_standbys:  # else it may run elsewhere by now
                    raise FlawError(where, f"broker {step.broker!r} has crashed already; restart it first")
                if step.for_good and not self._is_coloured:
                    reason = 'only a coloured network repairs itself after that; leave it out, or set kind = "coloured"'
                    raise FlawError((*path, "for_good"), reason)
                (self._dead if step.for_good else self._down).add(step.broker)
            case Restart():
                if step.broker in self._dead:
                    raise FlawError(where, f"broker {step.broker!r} has crashed for good; it does not come back")
                if step.broker not in self._down:
                    raise FlawError(where, f"broker {step.broker!r} is running; only a crashed one can restart")
                self._down.discard(step.broker)
                self._check_backup(step, (*path, "state_from"))

    def _strike_machines(self, step: Destroy | Partition, path: Path) -> None:
        if isinstance(step, Partition):
            for i, side in enumerate(step.sides):
                for j, name in enumerate(side):
                    self._need_place(name, (*path, "sides", i, j))
            return
        if not self._has_standbys:
            raise FlawError((*path, "do"), "what is destroyed needs a copy elsewhere; add [standby]")
        if bool(step.broker) == bool(step.machine):
            raise FlawError(path, "`destroy` has either a `broker`, for the machine where it runs, or a `machine`")
        if step.broker:
            self._need_known(step.broker, (*path, "broker"))
        elif step.machine not in self._machines:
            known = instead(step.machine, self._machines)
            raise FlawError((*path, "machine"), f"there is no machine {step.machine!r} in [standby]{known}")

    def _need_place(self, name: str, path: Path) -> None:
        known = {*self._brokers, *self._leaving, *self._broker_of, *self._machines}
        if name not in known:
            raise FlawError(path, f"there is no broker, client or machine {name!r} by then{instead(name, known)}")

    def _check_backup(self, step: Restart, path: Path) -> None:
        if step.state_from is None:
            return
        if self._has_standbys:
            raise FlawError(path, "with [standby] an old state is no copy: it is refused; leave `state_from` out")
        if not self._finds_back:
            raise FlawError(path, "an old state needs repair; add [stabilise]")
        if step.state_from >= step.at:
            raise FlawError(path, f"`state_from` is {step.state_from:g} s, not before the step itself at {step.at:g} s")

    def _need_brokers(self, brokers: Iterable[str], path: Path) -> None:
        for i, broker in enumerate(brokers):
            self._need_broker(broker, (*path, i))

    def _need_broker(self, broker: str, path: Path) -> None:
        if broker not in self._brokers:
            raise FlawError(path, f"there is no broker {broker!r} by then{instead(broker, self._brokers)}")

    def _need_known(self, broker: str, path: Path) -> None:
        """A broker that leaves can be struck meanwhile; once it is gone, that is refused at run time."""
        if broker not in self._leaving:
            self._need_broker(broker, path)

    def _need_client(self, client: str, path: Path) -> None:
        if client not in self._broker_of:
            raise FlawError((*path, "client"), f"there is no client {client!r}{instead(client, self._broker_of)}")

    def _need_link(self, link: tuple[str, str], path: Path) -> None:
        for i, node in enumerate(link):
            known = {*self._brokers, *self._leaving, *self._broker_of}
            if node not in known:
                raise FlawError((*path, i), f"there is no node {node!r} by then{instead(node, known)}")
        a, b = link
        is_attachment = self._broker_of.get(a) == b or self._broker_of.get(b) == a
        if self._links_known and not is_attachment and frozenset(link) not in self._links:
            known = {"-".join(sorted(pair)) for pair in self._links}
            raise FlawError(path, f"there is no link {a}-{b} by then{all_known(known)}")


def _need_protocol(name: str, path: Path, choices: tuple[str, ...] = CHOICES) -> None:
    if name and name not in choices:
        raise FlawError(path, f"unknown protocol {name!r}{instead(name, choices)}")


def _filters(texts: Iterable[str]) -> set[Filter]:
    return {parse_filter(text) for text in texts}
