"""The observer of a broker on behalf of its councillor: records its traffic, and reports changes of its links.

Drivers call it for every message that the broker has handled, in the simulator and in processes alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.effects import Effect, Observe, Passed
from pleach.core.messages import EVENTS_TO_BROKERS, OPERATOR, Message, Node
from pleach.core.messages.runs import Run
from pleach.core.optimise.council import CouncilBroker, Councillor


class CouncilObserver:
    def __init__(self, councillor: Councillor, broker: CouncilBroker) -> None:
        self._councillor = councillor
        self._broker = broker
        self._neighbours = {*broker.neighbours}
        self._is_done = False  # an operation has ended since the last check

    def saw(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        self._councillor.log.saw(sender, message, effects, now)
        if message.__class__ not in EVENTS_TO_BROKERS:
            self.look(effects, now)

    def saw_timer(self, effects: Sequence[Effect], now: float) -> None:
        self._councillor.log.saw(OPERATOR, None, effects, now)
        self.look(effects, now)

    def saw_run(self, sender: Node, run: Run, passed: Passed, now: float) -> None:
        self._councillor.log.saw_run(sender, run, passed, now)

    def look(self, effects: Sequence[Effect], now: float) -> None:
        """Report a change once an operation has ended; one that was refused is none."""
        self._is_done = self._is_done or any(_says_done(effect) for effect in effects)
        if self._broker.is_busy:
            return
        neighbours = {*self._broker.neighbours}
        if self._is_done or neighbours != self._neighbours:
            self._councillor.changed(now)
        self._is_done, self._neighbours = False, neighbours


def _says_done(effect: Effect) -> bool:
    """Participants observe the end of an operation; their neighbours may be unchanged."""
    return isinstance(effect, Observe) and effect.phase is not None and effect.phase.is_done
