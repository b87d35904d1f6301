"""What an endpoint drives: the face that a broker or a client shows to its links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pleach.core.effects import Effect, Passed
from pleach.core.messages import Message, Node
from pleach.core.messages.runs import Run


class LinkedMachine(Protocol):
    """A broker or a client, as an endpoint drives it."""

    @property
    def name(self) -> Node: ...

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]: ...

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        """Handle a run as a whole, with the outcome of handling its messages one by one; None: do that instead.

        Only where nothing of it changes what `capture` gives: runs that are handled here are not journalled.
        """
        ...

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]: ...

    def resume(self, *, now: float) -> Sequence[Effect]:
        """After a restart: what must be set going again, such as timers. Changes nothing that `capture` gives."""
        ...

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        """The peer has lost its memory, and with it what it knew of this machine."""
        ...

    def is_changed_by(self, sender: Node, message: Message) -> bool:
        """Whether handling the message may change what `capture` gives."""
        ...

    def capture(self) -> bytes: ...

    def restore(self, data: bytes) -> None: ...
