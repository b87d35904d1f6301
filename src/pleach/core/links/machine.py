"""The interface of a machine (a broker or a client) that an endpoint drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pleach.core.effects import Effect, Passed
from pleach.core.messages import Message, Node
from pleach.core.messages.runs import Run


class LinkedMachine(Protocol):
    @property
    def name(self) -> Node: ...

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]: ...

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        """Handle a run at once, with the same result as message by message; None: handle its messages one by one.

        Runs that are handled here are not journalled, so they must not change what `capture` returns.
        """
        ...

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]: ...

    def resume(self, *, now: float) -> Sequence[Effect]:
        """The effects to perform after a restart, such as timers. Must not change what `capture` returns."""
        ...

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        """The peer has lost its state, including what it knew of this machine."""
        ...

    def is_changed_by(self, sender: Node, message: Message) -> bool:
        """Whether handling the message may change what `capture` returns."""
        ...

    def capture(self) -> bytes: ...

    def restore(self, data: bytes) -> None: ...
