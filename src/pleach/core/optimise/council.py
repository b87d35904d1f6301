"""Improvement of the tree by its brokers (S1 §5.5; docs/protocols/council.md): a pure councillor beside each broker.

    d ── Bulletin ──▶ c ──▶ b ──▶ a      every round, up to the radius: d's cache, and the costs of the path
    a evaluates (5.11): would a link a–d be cheaper for the events that a and d have in common?
    a ── Motion ────▶ b ──▶ c ──▶ d      each adds from its ledger which events touch it, or drops the motion
    d judges (motions.py), and asks the overlay for the exchange

The messages follow S1's agents; in place of its consensus, ledgers decide (`settling.py`).

Rule 1: missing data is never guessed. A councillor without a recent bulletin of a broker on the path, or without a
        measured cost, does nothing until the next bulletin.
Rule 2: all state is soft. A councillor may lose its state, and messages may be lost: later ones replace them.
Rule 3: a motion covers events that all ledgers on its path have. A broker drops it whose links have changed since, or
        that is part of an operation, has just asked for one, or took part in too many within a minute.
Rule 4: a broker that asked for a link doubles its waiting time before it asks again (`PATIENCE_MAX`); one with a ledger
        of full age and no change sends bulletins half as often (`INTERVAL_MAX`). A change of the tree resets both.
Rule 5: where costs are uncertain, existing links are favoured (`CouncilBroker.reach`).
Rule 6: rounds have jitter, so that motions that met at a broker do not meet again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple, Protocol

from pleach.core.effects import Effect, Observe, Passed, Send
from pleach.core.messages import (
    EVENTS_TO_BROKERS,
    OPERATOR,
    BrokerOnPath,
    Bulletin,
    CouncilMessage,
    Message,
    Motion,
    Node,
    RequestExchange,
    RequestSwap,
)
from pleach.core.messages.runs import Run
from pleach.core.optimise.cache import Bloom
from pleach.core.optimise.cost import Costs
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.heuristics import is_cheaper_than_a_link, is_cheaper_than_path
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.core.optimise.motions import MotionJudgement, costs_of, judged, path_of, request_for
from pleach.core.optimise.settling import INTERVAL_MAX, PATIENCE_MAX
from pleach.core.optimise.traffic_log import LAG_SECONDS, TrafficLog
from pleach.core.overlay.choice import Circumstances
from pleach.core.timing import jitter

HEARD_MAX = 1_000  # brokers whose bulletins are kept
MINUTE = 60.0
EVALUATIONS = (is_cheaper_than_path, is_cheaper_than_a_link)  # either is reason enough to ask: ledgers decide


class CouncilBroker(Protocol):
    """The broker of a councillor, as the councillor sees it."""

    @property
    def neighbours(self) -> Collection[Node]: ...

    @property
    def is_busy(self) -> bool:
        """Whether it is part of a reconfiguration."""
        ...

    @property
    def address(self) -> str: ...

    @property
    def processing(self) -> float:
        """The cost of an event at this broker."""
        ...

    def reach(self, broker: Node, *, is_linked: bool) -> float | None:
        """The cost of a link to another broker, existing or not; None until it is measured.

        Of several measurements: the least for an existing link, a typical one for another.
        """
        ...


class CouncilTurn(NamedTuple):
    """The effects of a councillor. `request`: for the overlay."""

    sends: list[Send]
    judgement: MotionJudgement | None = None
    request: RequestSwap | RequestExchange | None = None


NOTHING = CouncilTurn([])


class HeardBulletin(NamedTuple):
    summary: Bloom
    address: str
    at: float


class MotionBackoff(NamedTuple):
    rounds: int
    until: float


class Councillor:
    """`fresh_name`: names operations. `where`: properties of the network that decide the exchange protocol."""

    def __init__(
        self,
        name: Node,
        broker: CouncilBroker,
        settings: CouncilSettings,
        *,
        now: float,
        where: Circumstances,
        fresh_name: Callable[[], str],
    ) -> None:
        self.name = name
        self.log = TrafficLog(settings.window, now)
        self.tally: Counter[str] = Counter()  # of bulletins and motions, and of what became of motions
        self._broker, self._settings = broker, settings
        self._where, self._fresh_name = where, fresh_name
        self._heard: dict[Node, HeardBulletin] = {}
        self._backoffs: dict[Node, MotionBackoff] = {}
        self._changes: deque[float] = deque(maxlen=settings.actions_per_minute_max)
        self._rounds = 1  # between this broker's bulletins
        self._due = now
        self._asked_at = -MINUTE  # when it last asked for an exchange

    @property
    def addresses(self) -> Mapping[Node, str]:
        """Of brokers within the radius, whose distances are to be measured."""
        return {broker: heard.address for broker, heard in self._heard.items()}

    def changed(self, now: float) -> None:
        """This broker took part in a reconfiguration that has ended."""
        self.log.begin_anew(now)
        self._changes.append(now)
        self.tally["changes"] += 1
        self._backoffs.clear()
        self._rounds, self._due = 1, min(self._due, now + self._settings.every)

    # Bulletins -------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Send]:
        """Called at least once a round; sends a bulletin when it is due."""
        if now < self._due:
            return []
        self.log.relax(now)
        self._heard = {who: heard for who, heard in self._heard.items() if not self._is_stale(heard, now)}
        if self.log.age(now) >= self._settings.window:
            self._rounds = min(2 * self._rounds, INTERVAL_MAX)
        self.tally["bulletins"] += 1
        self._due = now + self._rounds * self._settings.every * jitter(f"{self.name}/{self.tally['bulletins']}")
        summary = self.log.summary().bits
        return self._passed_on(Bulletin(summary, self._broker.address, [self._own_entry(now)], []))

    def _passed_on(self, bulletin: Bulletin) -> list[Send]:
        if len(bulletin.way) > self._settings.radius:
            return []
        passed = {each.broker for each in bulletin.way}
        return [Send(there, bulletin) for there in sorted({*self._broker.neighbours} - passed)]

    def _own_entry(self, now: float) -> BrokerOnPath:
        broker, log = self._broker, self.log
        return BrokerOnPath(self.name, broker.processing, len(broker.neighbours), log.age(now), log.level)

    def handle(self, sender: Node, message: CouncilMessage, *, now: float) -> CouncilTurn:
        if sender not in self._broker.neighbours:
            return NOTHING  # the link was just removed
        match message:
            case Bulletin():
                return self._on_bulletin(sender, message, now)
            case Motion():
                return self._on_motion(sender, message, now)

    def _on_bulletin(self, sender: Node, message: Bulletin, now: float) -> CouncilTurn:
        way = message.way
        passed = {each.broker for each in way}
        is_whole = len(message.links) == len(way) - 1 and len(passed) == len(way) <= self._settings.radius
        if not is_whole or way[-1].broker != sender or self.name in passed:
            return NOTHING
        if not self._keep(message, now):
            return NOTHING
        cost = self._broker.reach(sender, is_linked=True)
        if cost is None:
            return NOTHING
        here = Bulletin(message.summary, message.address, [*way, self._own_entry(now)], [*message.links, cost])
        motion = self._motion_for(here, now)
        turn = self._on_motion(self.name, motion, now) if motion else NOTHING
        return turn._replace(sends=[*turn.sends, *self._passed_on(here)])

    def _keep(self, message: Bulletin, now: float) -> bool:
        shape, origin = self.log.cache.shape, message.way[0].broker
        if len(message.summary) != (shape.bits + 7) // 8 or len(self._heard) >= HEARD_MAX:
            return False
        self._heard[origin] = HeardBulletin(Bloom(shape, message.summary), message.address, now)
        return True

    def _is_stale(self, heard: HeardBulletin, now: float) -> bool:
        return now - heard.at > (INTERVAL_MAX + 1) * self._settings.every

    def _is_fresh(self, broker: Node, now: float) -> bool:
        heard = self._heard.get(broker)
        return heard is not None and not self._is_stale(heard, now)

    # Motions ---------------------------------------------------------------------------------------------------

    def _motion_for(self, here: Bulletin, now: float) -> Motion | None:
        """Algorithm 17: a motion for a link to the origin of a bulletin, if the evaluation is positive."""
        way = here.way[::-1]
        there = way[-1].broker
        window = min(each.age for each in way)
        if len(way) <= 2 or window < self._settings.every + LAG_SECONDS or self._waits_for(there, now):
            return None
        cost = self._broker.reach(there, is_linked=False)
        if cost is None or not all(self._is_fresh(each.broker, now) for each in way[1:]):
            return None
        level = max(each.level for each in way)
        motion = Motion(way, [*here.links[::-1], cost], window, level, {})
        view = _View(self.name, self.log, self._heard, costs_of(motion))
        if not any(promises(path_of(motion), view) for promises in EVALUATIONS):
            return None
        self._wait_for(there, now)
        self.tally["motions"] += 1
        return motion

    def _waits_for(self, there: Node, now: float) -> bool:
        return there in self._backoffs and now < self._backoffs[there].until

    def _wait_for(self, there: Node, now: float) -> None:
        rounds = min(2 * self._backoffs[there].rounds, PATIENCE_MAX) if there in self._backoffs else 1
        self._backoffs[there] = MotionBackoff(rounds, now + rounds * self._settings.every)

    def _on_motion(self, sender: Node, message: Motion, now: float) -> CouncilTurn:
        """Algorithm 18. At the first broker of the path `sender` is the broker itself."""
        path = path_of(message)
        is_whole = 2 < len(path) == len(message.links) == len({*path})
        place = path.index(self.name) if self.name in path else -1
        if not is_whole or place < 0 or (path[place - 1] if place else self.name) != sender:
            return NOTHING
        if why_not := self._why_drop(message, now):
            self.tally[why_not] += 1
            return NOTHING
        beside = frozenset(path[i] for i in (place - 1, place + 1) if 0 <= i < len(path))
        touched = dict(message.touched)
        for key in self.log.touching(beside, message.window, message.level, now):
            touched[key] = touched.get(key, 0) | 1 << place
        motion = Motion(message.way, message.links, message.window, message.level, touched)
        if place == len(path) - 1:
            return self._decided(motion, now)
        there = path[place + 1]
        return CouncilTurn([Send(there, motion)] if there in self._broker.neighbours else [])

    def _why_drop(self, message: Motion, now: float) -> str:
        """Why this broker drops a motion (rule 3); empty if it forwards it."""
        if self._broker.is_busy or now - self._asked_at < self._settings.every:
            return "busy"
        is_full = len(self._changes) == self._changes.maxlen
        if is_full and now - self._changes[0] < MINUTE:
            return "too often"
        if self.log.age(now) < message.window or self.log.level > message.level:
            return "changed"
        return ""

    def _decided(self, motion: Motion, now: float) -> CouncilTurn:
        judgement = judged(motion, self._settings)
        request = request_for(judgement, self._fresh_name(), self._where) if judgement.is_worth_it else None
        if judgement.is_worth_it and request is None:
            judgement = judgement._replace(verdict=ImproveVerdict.SWAPS)
        self.tally[judgement.verdict] += 1
        if not judgement.is_worth_it or self._settings.dry_run:
            return CouncilTurn([], judgement)
        self._asked_at = now
        return CouncilTurn([], judgement, request)


class _View:
    """A `CostView`: costs from the motion, common traffic from this broker's cache and the others' summaries."""

    def __init__(self, me: Node, log: TrafficLog, heard: Mapping[Node, HeardBulletin], costs: Costs) -> None:
        self._me, self._log, self._heard, self._costs = me, log, heard, costs

    def common(self, *brokers: Node) -> float:
        others = sorted({*brokers} - {self._me})
        return self._log.cache.common(reduce(and_, (self._heard[other].summary for other in others)))

    def processing(self, broker: Node) -> float:
        return self._costs.processing[broker]

    def communication(self, a: Node, b: Node) -> float:
        return self._costs.of_link(a, b)


class CouncilObserver:
    """Records the traffic of a broker for its councillor, and reports changes of its links.

    Drivers call it for every message that the broker has handled, in the simulator and in processes alike.
    """

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
