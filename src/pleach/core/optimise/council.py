"""How brokers improve their tree among themselves (S1 §5.5; docs/protocols/ci.md): one councillor beside each, pure.

    d ── Bulletin ──▶ c ──▶ b ──▶ a      every round, as far as the radius: d's cache, and what the way costs
    a evaluates (5.11): would a link a–d be cheaper for what a and d have in common?
    a ── Motion ────▶ b ──▶ c ──▶ d      each adds from its ledger which events touch it, or lets the motion rest
    d judges (motions.py), and asks the overlay for the exchange

`agent.py` is the same as S1 has it; here ledgers decide, as `settling.py` says why.

Rule 1: nothing is guessed. Whoever has not heard of a broker on the way lately, or not measured how far one is, does
        nothing; the next bulletin comes.
Rule 2: all of it is soft. A councillor may lose what it knows, and its messages may be lost: a later one does.
Rule 3: a motion speaks of events that all ledgers on its way have. A broker whose tree has changed since lets it rest,
        and so does one that takes part in a change, has just asked for one, or has taken part in too many of late.
Rule 4: who has moved for a link waits twice as long before it does so again (`PATIENCE_MAX`); who has a ledger of full
        age, and nothing new, says so half as often (`INTERVAL_MAX`). A change of the tree sets both back where it was.
Rule 5: where costs are in doubt, the links that are there have the benefit of it (`Ground.reach`).
Rule 6: rounds are not equally long, so that motions which were in each other's way are not so again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import and_
from typing import NamedTuple, Protocol

from pleach.core.effects import Send
from pleach.core.messages import BrokerOnPath, Bulletin, CouncilMessage, Motion, Node, RequestExchange, RequestSwap
from pleach.core.optimise.bloom import Bloom
from pleach.core.optimise.cost import Costs
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.heuristics import LOCAL_MST, CostAndInterest
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.core.optimise.motions import MotionJudgement, costs_of, judged, path_of, request_for
from pleach.core.optimise.settling import INTERVAL_MAX, PATIENCE_MAX
from pleach.core.optimise.traffic_log import LAG_SECONDS, Book
from pleach.core.overlay.choice import Circumstances
from pleach.core.timing import jitter

HEARD_MAX = 1_000  # brokers that bulletins are kept of
MINUTE = 60.0
EVALUATIONS = (CostAndInterest(), LOCAL_MST)  # one must be of hope: ledgers decide, asking is cheap


class CouncilBroker(Protocol):
    """What a councillor has to know of its broker."""

    @property
    def neighbours(self) -> Collection[Node]: ...

    @property
    def is_busy(self) -> bool:
        """Whether it takes part in a reconfiguration."""
        ...

    @property
    def address(self) -> str: ...

    @property
    def processing(self) -> float:
        """What an event costs at this broker."""
        ...

    def reach(self, broker: Node, *, is_linked: bool) -> float | None:
        """What a link to another broker costs, or would; None as long as nobody has measured it.

        Where measurements differ: the least of a link that is there, and of one that is not what is usual.
        """
        ...


class CouncilTurn(NamedTuple):
    """What a councillor wants done. `request`: for the overlay."""

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
    """`fresh_name`: names operations. `where`: the network, as far as it counts for the choice of a protocol."""

    def __init__(
        self,
        name: Node,
        ground: CouncilBroker,
        conduct: CouncilSettings,
        *,
        now: float,
        where: Circumstances,
        fresh_name: Callable[[], str],
    ) -> None:
        self.name = name
        self.book = Book(conduct.window, now)
        self.tally: Counter[str] = Counter()  # bulletins and motions of this broker, and what became of others'
        self._ground, self._conduct = ground, conduct
        self._where, self._fresh_name = where, fresh_name
        self._heard: dict[Node, HeardBulletin] = {}
        self._patience: dict[Node, MotionBackoff] = {}
        self._changes: deque[float] = deque(maxlen=conduct.actions_per_minute_max)
        self._rounds = 1  # until the next bulletin
        self._due = now
        self._asked_at = -MINUTE  # when it last decided for an exchange

    @property
    def addresses(self) -> Mapping[Node, str]:
        """Of brokers within the radius: whose distance is of interest."""
        return {broker: heard.address for broker, heard in self._heard.items()}

    def changed(self, now: float) -> None:
        """A reconfiguration has ended that this broker took part in."""
        self.book.begin_anew(now)
        self._changes.append(now)
        self.tally["changes"] += 1
        self._patience.clear()
        self._rounds, self._due = 1, min(self._due, now + self._conduct.every)

    # Bulletins -------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Send]:
        """To be called at least once a round; says what there is to say, if it is time."""
        if now < self._due:
            return []
        self.book.relax(now)
        if self.book.age(now) >= self._conduct.window:
            self._rounds = min(2 * self._rounds, INTERVAL_MAX)
        self.tally["bulletins"] += 1
        self._due = now + self._rounds * self._conduct.every * jitter(f"{self.name}/{self.tally['bulletins']}")
        summary = self.book.summary().bits
        return self._passed_on(Bulletin(summary, self._ground.address, [self._standing(now)], []))

    def _passed_on(self, bulletin: Bulletin) -> list[Send]:
        if len(bulletin.way) > self._conduct.radius:
            return []
        passed = {each.broker for each in bulletin.way}
        return [Send(there, bulletin) for there in sorted({*self._ground.neighbours} - passed)]

    def _standing(self, now: float) -> BrokerOnPath:
        ground, book = self._ground, self.book
        return BrokerOnPath(self.name, ground.processing, len(ground.neighbours), book.age(now), book.level)

    def handle(self, sender: Node, message: CouncilMessage, *, now: float) -> CouncilTurn:
        if sender not in self._ground.neighbours:
            return NOTHING  # the link has just gone
        match message:
            case Bulletin():
                return self._on_bulletin(sender, message, now)
            case Motion():
                return self._on_motion(sender, message, now)

    def _on_bulletin(self, sender: Node, message: Bulletin, now: float) -> CouncilTurn:
        way = message.way
        passed = {each.broker for each in way}
        is_whole = len(message.links) == len(way) - 1 and len(passed) == len(way) <= self._conduct.radius
        if not is_whole or way[-1].broker != sender or self.name in passed:
            return NOTHING
        if not self._keep(message, now):
            return NOTHING
        cost = self._ground.reach(sender, is_linked=True)
        if cost is None:
            return NOTHING
        here = Bulletin(message.summary, message.address, [*way, self._standing(now)], [*message.links, cost])
        motion = self._moved(here, now)
        turn = self._on_motion(self.name, motion, now) if motion else NOTHING
        return turn._replace(sends=[*turn.sends, *self._passed_on(here)])

    def _keep(self, message: Bulletin, now: float) -> bool:
        stale = (INTERVAL_MAX + 1) * self._conduct.every
        self._heard = {who: heard for who, heard in self._heard.items() if now - heard.at <= stale}
        shape, origin = self.book.cache.shape, message.way[0].broker
        if len(message.summary) != (shape.bits + 7) // 8 or len(self._heard) >= HEARD_MAX:
            return False
        self._heard[origin] = HeardBulletin(Bloom(shape, message.summary), message.address, now)
        return True

    # Motions ---------------------------------------------------------------------------------------------------

    def _moved(self, here: Bulletin, now: float) -> Motion | None:
        """Algorithm 17: the motion for a link to where a bulletin came from, if that promises something."""
        way = here.way[::-1]
        there = way[-1].broker
        window = min(each.age for each in way)
        if len(way) <= 2 or window < self._conduct.every + LAG_SECONDS or self._waits_for(there, now):
            return None
        cost = self._ground.reach(there, is_linked=False)
        if cost is None or any(each.broker not in self._heard for each in way[1:]):
            return None
        level = max(each.level for each in way)
        motion = Motion(way, [*here.links[::-1], cost], window, level, {})
        view = _View(self.name, self.book, self._heard, costs_of(motion))
        if not any(each.is_promising(path_of(motion), view) for each in EVALUATIONS):
            return None
        self._wait_for(there, now)
        self.tally["motions"] += 1
        return motion

    def _waits_for(self, there: Node, now: float) -> bool:
        return there in self._patience and now < self._patience[there].until

    def _wait_for(self, there: Node, now: float) -> None:
        rounds = min(2 * self._patience[there].rounds, PATIENCE_MAX) if there in self._patience else 1
        self._patience[there] = MotionBackoff(rounds, now + rounds * self._conduct.every)

    def _on_motion(self, sender: Node, message: Motion, now: float) -> CouncilTurn:
        """Algorithm 18. At the first broker of the way `sender` is itself."""
        path = path_of(message)
        is_whole = 2 < len(path) == len(message.links) == len({*path})
        place = path.index(self.name) if self.name in path else -1
        if not is_whole or place < 0 or (path[place - 1] if place else self.name) != sender:
            return NOTHING
        if why_not := self._why_rest(message, now):
            self.tally[why_not] += 1
            return NOTHING
        beside = frozenset(path[i] for i in (place - 1, place + 1) if 0 <= i < len(path))
        touched = dict(message.touched)
        for key in self.book.touching(beside, message.window, message.level, now):
            touched[key] = touched.get(key, 0) | 1 << place
        motion = Motion(message.way, message.links, message.window, message.level, touched)
        if place == len(path) - 1:
            return self._decided(motion, now)
        there = path[place + 1]
        return CouncilTurn([Send(there, motion)] if there in self._ground.neighbours else [])

    def _why_rest(self, message: Motion, now: float) -> str:
        """Why a motion rests here (rule 3); empty where it goes on."""
        if self._ground.is_busy or now - self._asked_at < self._conduct.every:
            return "busy"
        is_full = len(self._changes) == self._changes.maxlen
        if is_full and now - self._changes[0] < MINUTE:
            return "too often"
        if self.book.age(now) < message.window or self.book.level > message.level:
            return "changed"
        return ""

    def _decided(self, motion: Motion, now: float) -> CouncilTurn:
        judgement = judged(motion, self._conduct)
        request = request_for(judgement, self._fresh_name(), self._where) if judgement.is_worth_it else None
        if judgement.is_worth_it and request is None:
            judgement = judgement._replace(verdict=ImproveVerdict.SWAPS)
        self.tally[judgement.verdict] += 1
        if not judgement.is_worth_it or self._conduct.dry_run:
            return CouncilTurn([], judgement)
        self._asked_at = now
        return CouncilTurn([], judgement, request)


class _View:
    """Costs from the motion, common traffic from this broker's cache and the others' summaries (`indirect.View`)."""

    def __init__(self, me: Node, book: Book, heard: Mapping[Node, HeardBulletin], costs: Costs) -> None:
        self._me, self._book, self._heard, self._costs = me, book, heard, costs

    def common(self, *brokers: Node) -> float:
        others = sorted({*brokers} - {self._me})
        return self._book.cache.common(reduce(and_, (self._heard[other].summary for other in others)))

    def processing(self, broker: Node) -> float:
        return self._costs.processing[broker]

    def communication(self, a: Node, b: Node) -> float:
        return self._costs.of_link(a, b)
