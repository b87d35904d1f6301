"""The contract of "replace link r by link a": what every exchange protocol is, for the machine that runs it.

A protocol is a file of this folder with one class, a *part*: what one broker does between lock and end. The machine
locks the cycle before, ends the part after, and gives it what comes of the exchange; registry.py has their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from pleach.core.effects import Effect, Observe, phase_seen
from pleach.core.messages import Message, Node
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.exchange.failures import OldLink
from pleach.core.overlay.seam import Reaction, Reconfiguration

PART: Final = "exchange:part"  # the timer of a part

NOTHING = Reaction()


class ExchangePart(Protocol):
    """One broker's part in one exchange, by one protocol; it is made when the broker is locked."""

    @property
    def cycle(self) -> Cycle: ...

    @property
    def is_over(self) -> bool:
        """Whether this broker has no more to do with the exchange.

        When u has not, the operation is done: links and tables of its side are those of the new tree, and what still
        comes of the exchange does not come by there.
        """
        ...

    @property
    def old_link(self) -> OldLink:
        """At an end of r: how it stands to it."""
        ...

    @property
    def seam(self) -> Reconfiguration: ...

    def begin(self, lock_seconds: float, /) -> Reaction:
        """At u: all are locked, which took so long, and the new link is open."""
        ...

    def handle(self, sender: Node, message: Message) -> Reaction: ...

    def due(self) -> Reaction:
        """Its timer, `PART`, is due."""
        ...

    def resume(self) -> Sequence[Effect]: ...

    def capture(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


PartMaker: TypeAlias = Callable[[BrokerContext, Cycle, str], ExchangePart]


def note(cycle: Cycle, what: str, *, is_done: bool = False) -> Observe:
    return phase_seen("exchange", cycle.operation, what, is_done=is_done)
