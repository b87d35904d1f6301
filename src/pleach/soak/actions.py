"""What the monkey may do to a network, as data: one struct for each kind, tagged by `do`.

An action lasts until it is undone: a link that was cut is whole again after `seconds`, a machine that was stopped is
continued. `touches` names the machines and brokers that it does something to; `steps_of` tells it in the language of
scenarios, where that has words for it, so that a simulator can do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, get_args

import msgspec

from pleach.core.messages import Node
from pleach.scenario import steps
from pleach.scenario.steps import Step
from pleach.scenario.values import Span


class ActionBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    pass


# The tree


class Swap(ActionBase, frozen=True, tag="swap"):
    brokers: tuple[Node, Node, Node]


class Exchange(ActionBase, frozen=True, tag="exchange"):
    remove: tuple[Node, Node]
    add: tuple[Node, Node]


class Join(ActionBase, frozen=True, tag="join"):
    """A broker on a machine of its own joins."""

    broker: Node
    to: Node


class Leave(ActionBase, frozen=True, tag="leave"):
    broker: Node


# Clients


class MoveClient(ActionBase, frozen=True, tag="move_client"):
    client: Node
    to: Node


class Storm(ActionBase, frozen=True, tag="storm"):
    """A client subscribes to all of these at once, and takes them back after some seconds."""

    client: Node
    filters: tuple[str, ...]
    seconds: float


class Traffic(ActionBase, frozen=True, tag="traffic"):
    """From now on publishers publish so many times as often as at the beginning."""

    factors: dict[Node, float]


# Machines


class MoveBroker(ActionBase, frozen=True, tag="move_broker"):
    broker: Node
    to: Node  # a machine


class Kill(ActionBase, frozen=True, tag="kill"):
    """`kill -9` of a broker's process, which is started again after some seconds."""

    broker: Node
    seconds: float


class PowerCut(ActionBase, frozen=True, tag="power_cut"):
    """`kill -9` of all processes of a machine; its disk stays, and it is started again after some seconds."""

    machine: Node
    seconds: float


class Upgrade(ActionBase, frozen=True, tag="upgrade"):
    """SIGTERM to a machine, and a start with what is installed then."""

    machine: Node


class Destroy(ActionBase, frozen=True, tag="destroy"):
    """A machine is gone for good, disk and all, once all brokers have copies; then a fresh one is added."""

    machine: Node
    fresh: Node


class Stop(ActionBase, frozen=True, tag="stop"):
    """SIGSTOP to all processes of a machine, and SIGCONT after some seconds."""

    machine: Node
    seconds: float


class FullDisk(ActionBase, frozen=True, tag="full_disk"):
    broker: Node
    seconds: float


class SlowDisk(ActionBase, frozen=True, tag="slow_disk"):
    """Each commit takes so much longer."""

    broker: Node
    delay: float
    seconds: float


class Damage(ActionBase, frozen=True, tag="damage"):
    """A share of a broker's tables is wrong."""

    broker: Node
    what: str
    share: float


# Links between machines


class Cut(ActionBase, frozen=True, tag="cut"):
    """Connections between two machines end, and no new ones are made, for some seconds."""

    link: tuple[Node, Node]
    seconds: float


class Flap(ActionBase, frozen=True, tag="flap"):
    """Cut and healed again and again, each time for so long."""

    link: tuple[Node, Node]
    every: float
    seconds: float


class Partition(ActionBase, frozen=True, tag="partition"):
    """Nothing passes between these machines and all others."""

    side: tuple[Node, ...]
    one_way: bool
    seconds: float


class Loss(ActionBase, frozen=True, tag="loss"):
    """This share of the packets between two machines is lost, and sent again by TCP."""

    link: tuple[Node, Node]
    share: float
    seconds: float


class Slow(ActionBase, frozen=True, tag="slow"):
    link: tuple[Node, Node]
    latency: tuple[float, float]
    seconds: float


# The run itself


class Settle(ActionBase, frozen=True, tag="settle"):
    """Nothing else happens until the network is whole: one tree, all links up, every broker with its copies."""


Action: TypeAlias = (
    Swap
    | Exchange
    | Join
    | Leave
    | MoveClient
    | Storm
    | Traffic
    | MoveBroker
    | Kill
    | PowerCut
    | Upgrade
    | Destroy
    | Stop
    | FullDisk
    | SlowDisk
    | Damage
    | Cut
    | Flap
    | Partition
    | Loss
    | Slow
    | Settle
)


def kind_of(action: Action | type[Action]) -> str:
    """Its name: the tag."""
    return str(action.__struct_config__.tag)


KINDS: dict[str, type[Action]] = {kind_of(each): each for each in get_args(Action)}


def touches(action: Action) -> frozenset[Node]:
    """The machines and brokers that it stops, cuts off or changes."""
    match action:
        case Kill(broker=node) | MoveBroker(broker=node) | Leave(broker=node) | Join(broker=node):
            return frozenset({node})
        case FullDisk(broker=node) | SlowDisk(broker=node) | Damage(broker=node):
            return frozenset({node})
        case PowerCut(machine=node) | Upgrade(machine=node) | Stop(machine=node) | Destroy(machine=node):
            return frozenset({node})
        case Cut(link=nodes) | Flap(link=nodes) | Loss(link=nodes) | Slow(link=nodes) | Partition(side=nodes):
            return frozenset(nodes)
        case _:
            return frozenset()


def busy_with(under_way: Iterable[Action], homes: Mapping[Node, Node]) -> frozenset[Node]:
    """Machines and brokers of actions that are under way, and the machines of these brokers."""
    named = frozenset[Node]().union(*map(touches, under_way))
    return named | {homes.get(name, name) for name in named}


def told(action: Action) -> str:
    """In one line."""
    fields = msgspec.structs.asdict(action).items()
    return " ".join([kind_of(action), *(f"{name}={_short(value)}" for name, value in fields)])


def _short(value: object) -> str:
    match value:
        case tuple() if len(value) > 4:
            return f"{len(value)}"
        case tuple():
            return "-".join(map(_short, value))
        case dict():
            return ",".join(f"{name}×{_short(each)}" for name, each in value.items())
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def steps_of(action: Action, at: float, homes: dict[Node, Node], latency: Span) -> Iterator[Step]:
    """Its steps in a scenario; none where a simulator cannot do it. `latency`: of a link that is not slow any more."""
    match action:
        case Swap(brokers=brokers):
            yield steps.Swap(at=at, brokers=brokers)
        case Exchange(remove=remove, add=add):
            yield steps.Exchange(at=at, remove=remove, add=add)
        case Join(broker=broker, to=to):
            yield steps.AddBroker(at=at, broker=broker, to=to)
        case Leave(broker=broker):
            yield steps.RemoveBroker(at=at, broker=broker)
        case MoveClient(client=client, to=to):
            yield steps.MoveClient(at=at, client=client, to=to)
        case Storm(client=client, filters=filters, seconds=seconds):
            yield from (steps.SubscribeStep(at=at, client=client, filter=text) for text in filters)
            yield from (steps.UnsubscribeStep(at=at + seconds, client=client, filter=text) for text in filters)
        case Destroy(machine=machine):
            broker = _broker_on(machine, homes)
            yield steps.Destroy(at=at, broker=broker) if broker else steps.Destroy(at=at, machine=machine)
        case Damage(broker=broker, what=what, share=share):
            yield steps.Corrupt(at=at, broker=broker, what=what, share=share)
        case _:
            yield from _outages(action, at, homes, latency)


def _outages(action: Action, at: float, homes: dict[Node, Node], latency: Span) -> Iterator[Step]:
    match action:
        case Kill(broker=broker, seconds=seconds):
            yield steps.Crash(at=at, broker=broker)
            yield steps.Restart(at=at + seconds, broker=broker)
        case PowerCut(machine=machine, seconds=seconds):
            yield from _restarted(machine, at, seconds, homes)
        case Upgrade(machine=machine):
            yield from _restarted(machine, at, 1.0, homes)
        case Stop(machine=machine, seconds=seconds):
            yield steps.Partition(at=at, sides=((_named(machine, homes),),), seconds=seconds)
        case Partition(side=side, one_way=one_way, seconds=seconds):
            named = tuple(_named(machine, homes) for machine in side)
            yield steps.Partition(at=at, sides=(named,), one_way=one_way, seconds=seconds)
        case Cut() | Flap() | Slow():
            a, b = action.link
            yield from _link_steps(action, at, (_named(a, homes), _named(b, homes)), latency)
        case _:
            return


def _link_steps(action: Cut | Flap | Slow, at: float, link: tuple[Node, Node], latency: Span) -> Iterator[Step]:
    match action:
        case Cut(seconds=seconds):
            yield steps.Cut(at=at, link=link)
            yield steps.Heal(at=at + seconds, link=link)
        case Flap(every=every, seconds=seconds):
            for number in range(int(seconds / every / 2)):
                yield steps.Cut(at=at + 2 * number * every, link=link)
                yield steps.Heal(at=at + (2 * number + 1) * every, link=link)
        case Slow(latency=(low, high), seconds=seconds):
            yield steps.Slow(at=at, link=link, latency=Span(low, high))
            yield steps.Slow(at=at + seconds, link=link, latency=latency)


def _broker_on(machine: Node, homes: dict[Node, Node]) -> Node:
    """A broker that runs there, by whose name scenarios know the machine; empty if there is none."""
    found = sorted(broker for broker, home in homes.items() if home == machine)
    return machine if machine in found else found[0] if found else ""


def _named(machine: Node, homes: dict[Node, Node]) -> Node:
    return _broker_on(machine, homes) or machine


def _restarted(machine: Node, at: float, seconds: float, homes: dict[Node, Node]) -> Iterator[Step]:
    for broker in sorted(broker for broker, home in homes.items() if home == machine):
        yield steps.Crash(at=at, broker=broker)
        yield steps.Restart(at=at + seconds, broker=broker)
