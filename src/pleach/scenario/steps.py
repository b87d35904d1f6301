"""The timeline of a scenario: one struct per kind of step, tagged by `do`."""

from __future__ import annotations

from typing import TypeAlias, get_args

import msgspec

from pleach.core.mobility.resettling import MoveProtocol
from pleach.scenario.values import (
    Constants,
    FilterText,
    Fraction,
    Link,
    Name,
    PositiveSeconds,
    Seconds,
    Sides,
    Span,
    Triple,
)


class StepBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """`at`: seconds after the start."""

    at: Seconds


# The tree ---------------------------------------------------------------------------------------------------


class Swap(StepBase, frozen=True, tag="swap"):
    """a-b-c becomes a-c-b. Brokers refuse it if they are not neighbours by then."""

    brokers: Triple


class Exchange(StepBase, frozen=True, tag="exchange"):
    """Replace one link by another one; the result must again be a tree. `protocol`: overrides `exchange`."""

    remove: Link
    add: Link
    protocol: Name = ""


class AddBroker(StepBase, frozen=True, tag="add_broker"):
    broker: Name
    to: Name


class RemoveBroker(StepBase, frozen=True, tag="remove_broker"):
    broker: Name


# Clients ----------------------------------------------------------------------------------------------------


class MoveClient(StepBase, frozen=True, tag="move_client"):
    """`protocol`: of `MoveProtocol`. `delay_max`: seconds from one broker to the other at most, where that is known."""

    client: Name
    to: Name
    protocol: Name = MoveProtocol.TRANSACTION
    delay_max: Seconds = 0.0


class SubscribeStep(StepBase, frozen=True, tag="subscribe"):
    client: Name
    filter: FilterText


class UnsubscribeStep(StepBase, frozen=True, tag="unsubscribe"):
    client: Name
    filter: FilterText


class AdvertiseStep(StepBase, frozen=True, tag="advertise"):
    client: Name
    filter: FilterText


class UnadvertiseStep(StepBase, frozen=True, tag="unadvertise"):
    client: Name
    filter: FilterText


class PublishStep(StepBase, frozen=True, tag="publish"):
    """A single event with constant attributes, so that the explorer can use it."""

    client: Name
    attributes: Constants


# Faults -----------------------------------------------------------------------------------------------------


class Crash(StepBase, frozen=True, tag="crash"):
    """The broker loses its memory and keeps its disk. `for_good`, in a coloured network: the disk too, and it does
    not restart."""

    broker: Name
    for_good: bool = False


class Restart(StepBase, frozen=True, tag="restart"):
    """`state_from`: with the state of that time, as from a backup, instead of the state on its disk."""

    broker: Name
    state_from: Seconds | None = None


class Destroy(StepBase, frozen=True, tag="destroy"):
    """The machine where the broker runs, or the one named, is gone for good: disk, copies and all."""

    broker: Name = ""
    machine: Name = ""


class Cut(StepBase, frozen=True, tag="cut"):
    link: Link


class Heal(StepBase, frozen=True, tag="heal"):
    link: Link


class Partition(StepBase, frozen=True, tag="partition"):
    """For some seconds nothing passes between the sides; a single one is cut off from all others.

    A broker's name stands for the machine where it runs. `one_way`: only what goes from a side to later ones is lost.
    """

    sides: Sides
    seconds: PositiveSeconds
    one_way: bool = False

    @property
    def told(self) -> str:
        return " | ".join(" ".join(side) for side in self.sides) + (" one way" if self.one_way else "")


class Slow(StepBase, frozen=True, tag="slow"):
    """From now on the link has this latency."""

    link: Link
    latency: Span


class Corrupt(StepBase, frozen=True, tag="corrupt"):
    """Damage the broker's state. The runner knows which parts (`what`) can be damaged. `share`: how much."""

    broker: Name
    what: Name
    share: Fraction = 0.5


class Garble(StepBase, frozen=True, tag="garble"):
    """Lose, alter or duplicate this share of the messages in flight on a link, and add forged ones."""

    link: Link
    share: Fraction = 0.5


class Drain(StepBase, frozen=True, tag="drain"):
    """Wait until all is quiet, and record it in the trace."""


Step: TypeAlias = (
    Swap
    | Exchange
    | AddBroker
    | RemoveBroker
    | MoveClient
    | SubscribeStep
    | UnsubscribeStep
    | AdvertiseStep
    | UnadvertiseStep
    | PublishStep
    | Crash
    | Restart
    | Destroy
    | Cut
    | Heal
    | Partition
    | Slow
    | Corrupt
    | Garble
    | Drain
)

STEP_KINDS: dict[str, type[Step]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Step)}
