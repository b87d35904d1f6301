"""The place of a councillor beside its broker: it sees what the broker does, and when the tree has changed there.

Drivers tell it of every message that the broker has handled, in every world the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.effects import Effect, Observe, Passed
from pleach.core.messages import EVENTS_TO_BROKERS, OPERATOR, Message, Node
from pleach.core.messages.runs import Run
from pleach.core.optimise.council import CouncilBroker, Councillor


class CouncilObserver:
    def __init__(self, councillor: Councillor, ground: CouncilBroker) -> None:
        self._councillor = councillor
        self._ground = ground
        self._neighbours = {*ground.neighbours}
        self._is_done = False  # an exchange, since the last look

    def saw(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        self._councillor.book.saw(sender, message, effects, now)
        if message.__class__ not in EVENTS_TO_BROKERS:
            self.look(effects, now)

    def saw_timer(self, effects: Sequence[Effect], now: float) -> None:
        self._councillor.book.saw(OPERATOR, None, effects, now)
        self.look(effects, now)

    def saw_run(self, sender: Node, run: Run, passed: Passed, now: float) -> None:
        self._councillor.book.saw_run(sender, run, passed, now)

    def look(self, effects: Sequence[Effect], now: float) -> None:
        """What was only tried is no change; nor is it one before it is over."""
        self._is_done = self._is_done or any(_says_done(effect) for effect in effects)
        if self._ground.is_busy:
            return
        neighbours = {*self._ground.neighbours}
        if self._is_done or neighbours != self._neighbours:
            self._councillor.changed(now)
        self._is_done, self._neighbours = False, neighbours


def _says_done(effect: Effect) -> bool:
    """Those who took part say so at the end; their neighbours may be what they were."""
    return isinstance(effect, Observe) and effect.phase is not None and effect.phase.is_done
