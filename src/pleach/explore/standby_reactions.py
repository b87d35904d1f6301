"""What each host does, computed once: the same state, input and opinion of time give the same outcome.

Hosts, messages and what is seen have small numbers. A host is copied before it moves, so that no state changes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec

from pleach.core.standby.messages import Ask, Prepare
from pleach.core.standby.views import Machine
from pleach.explore.standby_host import (
    ChosenTiming,
    CrashInside,
    Envelope,
    HostStage,
    ModelHost,
    SavedRegister,
    Seen,
    frozen,
)
from pleach.explore.transitions import Interner


class Outcome(NamedTuple):
    """What a host does: its next state, what it sends, and what is seen of it."""

    host: int
    sent: tuple[tuple[int, int], ...]  # channel, message
    seen: int  # 0: nothing
    saves: int  # registers that were saved on the way
    error: str = ""


class Reactions:
    def __init__(
        self, machines: Sequence[Machine], channels: Mapping[tuple[Machine, Machine], int], *, is_reduced: bool
    ) -> None:
        self.hosts: list[ModelHost | None] = [None]  # by number; 0 is one that is gone for good
        self.messages: list[Envelope] = []
        self.seen: list[tuple[Seen, ...]] = [()]
        self._machines = machines
        self._channels = channels
        self._is_reduced = is_reduced
        self._host_numbers: Interner[object] = Interner()
        self._message_numbers: Interner[bytes] = Interner()
        self._seen_numbers: Interner[object] = Interner()
        self._pickled: list[bytes] = [b""]
        self._outcomes: dict[tuple[int, str, int, int], list[Outcome]] = {}
        self._idle: dict[tuple[int, int], bool] = {}
        self._host_numbers.number(None)
        self._seen_numbers.number(())

    # Numbers -------------------------------------------------------------------------------------------------

    def number(self, host: ModelHost) -> int:
        number = self._host_numbers.number(frozen([host.machine, *host.state()]))
        if number == len(self._pickled):
            self._pickled.append(pickle.dumps(host, pickle.HIGHEST_PROTOCOL))
            self.hosts.append(host)
        return number

    def cloned(self, number: int) -> ModelHost:
        host = pickle.loads(self._pickled[number])  # noqa: S301 - it is our own
        assert isinstance(host, ModelHost)
        return host

    def _message(self, message: Envelope) -> int:
        number = self._message_numbers.number(msgspec.msgpack.encode(message))
        if number == len(self.messages):
            self.messages.append(message)
        return number

    def _sight(self, seen: tuple[Seen, ...]) -> int:
        number = self._seen_numbers.number(frozen(seen))
        if number == len(self.seen):
            self.seen.append(seen)
        return number

    def is_idle(self, number: int, message: int) -> bool:
        key = (number, message)
        if key not in self._idle:
            host = self.hosts[number]
            assert host is not None
            self._idle[key] = host.is_idle(self.messages[message])
        return self._idle[key]

    # What a host does ----------------------------------------------------------------------------------------

    def of(self, number: int, what: str, detail: int, other: int) -> list[Outcome]:
        key = (number, what, detail, other)
        known = self._outcomes.get(key)
        if known is None:
            known = self._outcomes[key] = [*self._reactions(number, what, detail, other)]
        return known

    def _reactions(self, number: int, what: str, detail: int, other: int) -> Iterator[Outcome]:
        """One for each different thing that a host may do, for any opinion of time, and a crash in the middle of it."""
        found: dict[tuple[int, tuple[tuple[int, int], ...]], Outcome] = {}
        for silent, is_late in self._opinions(number, what, detail):
            outcome = self._reaction(number, (what, detail, other), silent, is_late=is_late)
            found.setdefault((outcome.host, outcome.sent), outcome)
            for saves in range(1, outcome.saves):
                cut_short = self._reaction(number, (what, detail, other), silent, is_late=is_late, saves=saves)
                found.setdefault((cut_short.host, cut_short.sent), cut_short)
        yield from found.values()

    def _opinions(self, number: int, what: str, detail: int) -> Iterator[tuple[frozenset[Machine], bool]]:
        host = self.hosts[number]
        assert host is not None
        others = [each for each in self._machines if each != host.machine]
        nobody, everybody = frozenset[Machine](), frozenset(others)
        is_question = what == "deliver" and isinstance(self.messages[detail], Ask | Prepare)
        may_refuse = host.stage is HostStage.LEADING or not self._is_reduced
        if what == "tick" and host.stage is HostStage.LEADING:
            for silent in _subsets(others):
                yield silent, False
                if host.is_changing:
                    yield silent, True
        elif what == "tick" and host.member.is_primary:
            yield nobody, False
            yield everybody, False
        elif what == "tick":
            yield nobody, True
        elif is_question:
            yield everybody, True
            if may_refuse:
                yield nobody, False
        else:
            yield nobody, False

    def _reaction(
        self,
        number: int,
        given: tuple[str, int, int],
        silent: frozenset[Machine],
        *,
        is_late: bool,
        saves: int | None = None,
    ) -> Outcome:
        host = self.cloned(number)
        assert isinstance(host.member.timing, ChosenTiming)
        host.member.timing.choose(silent, is_late=is_late)
        host.saves_left = saves
        try:
            self._apply(host, *given)
        except CrashInside:
            host.sent.clear()  # or any of them: those that are lost then are lost by breaks
            host.saves_left = None
            host.crash(0)
        except Exception as error:  # noqa: BLE001 whatever a machine raises is a finding
            return Outcome(number, (), 0, 0, f"{type(error).__name__}: {error}")
        host.saves_left = None
        host.member.timing.choose(frozenset(), is_late=False)
        place = {
            machine: self._channels[host.machine, machine] for machine in self._machines if machine != host.machine
        }
        sent = tuple((place[to], self._message(message)) for to, message in host.take_sent())
        seen = tuple(host.take_seen())
        count = sum(1 for each in seen if isinstance(each, SavedRegister))
        return Outcome(self.number(host), sent, self._sight(seen), count)

    def _apply(self, host: ModelHost, what: str, detail: int, other: int) -> None:
        by_itself = {"write": host.disk_done, "lead": host.lead}
        by_time = {"tick": host.tick, "seek": host.seek, "answer": host.answer, "decree": host.decree}
        match what:
            case "deliver":
                host.handle(self._machines[other], self.messages[detail], 0.0)
            case "publish":
                host.publish(f"e{detail}")
            case "break":
                host.lost_touch(self._machines[detail])
            case "crash":
                host.crash(detail)
            case "hand over":
                host.step_down(self._machines[detail])
            case "write" | "lead":
                by_itself[what]()
            case _:
                by_time[what](0.0)


def _subsets(machines: Sequence[Machine]) -> Iterator[frozenset[Machine]]:
    for size in range(len(machines) + 1):
        yield from map(frozenset, combinations(machines, size))
