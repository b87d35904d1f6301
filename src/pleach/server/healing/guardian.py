"""The guardian starts a stand-in for a neighbour that is dead for good (docs/protocols/healing-live.md), and only one.

    silent for `after` ── ask the dead one, and its other neighbours ──▶ all who answer agree, and this broker is the
                                                                         first of them by name ──▶ start the stand-in

Rule 1: a neighbour that hears the broker, or knows a newer epoch of it, or is no neighbour of it, has the last word.
Rule 2: one that does not answer counts as down. So two guardians may start a stand-in each, while they cannot hear each
        other. Only one of these ever serves: to serve takes the testimony of every neighbour, and a broker that has
        testified to one fences all that are older.
Rule 3: a broker that was stopped in good order is not dead: what it has for others is on its disk.
Rule 4: a broker that hears nobody starts none: it may be the one that is cut off. Then it disconnects its clients, too,
        since a stand-in for it may be at work, and what it confirmed would be lost. That holds whatever it knows of
        those whom it does not hear: they may know enough of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

import msgspec

from pleach.core.links.frames import Bye, ByeReason, Frame, Hello
from pleach.core.messages import NeighbourAddress, NeighbourReport, Node
from pleach.core.overlay.healing.stand_in import StandInPhase
from pleach.errors import DeniedError, SettingsError, UnreachableError
from pleach.net.http_client import ask
from pleach.server.bugs import watched
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.healing.stand_in_host import StandInHost
from pleach.server.links import Port
from pleach.server.neighbour_reports import NeighbourReports
from pleach.server.parts import NodeParts

ASK_SECONDS_MAX = 1.0
OPINION_BYTES_MAX = 65_536
AGAIN_SECONDS = 0.5  # between two looks at the same silence
NO_REPORT = NeighbourReport(NeighbourAddress(), {}, "", {}, {})  # of a neighbour that died before it sent one

log = logging.getLogger(__name__)


class Opinion(msgspec.Struct, frozen=True):
    """What a broker says of another one."""

    name: Node  # who says it: ports are given to others in time
    linked: bool  # it is a neighbour
    up: bool  # and can be heard
    silent_seconds: float
    epoch: int  # the newest epoch of it that is known; 0: none
    guards: bool  # the broker that says this would start a stand-in
    on_leave: bool  # it has said that it stops, and comes back
    stand_in: str = ""  # where other brokers find the stand-in for it that runs here, if one does


class Guardian(Feature):
    frames = (Bye,)

    def __init__(self, parts: NodeParts, reports: NeighbourReports) -> None:
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory, self._counters = parts.directory, parts.counters.heal
        self._settings, self._clock = parts.settings, parts.clock
        self._reports = reports
        self.host = StandInHost(parts.settings)
        self._heard_at: dict[Node, float] = {}
        self._consulting: dict[Node, asyncio.Task[str]] = {}
        self._due: dict[Node, float] = {}
        self._logged: dict[Node, str] = {}  # the last reason why a silent neighbour got no stand-in
        self._on_leave: dict[Node, None] = {}
        self._cut_off = ""
        if parts.settings().heal is not None and parts.committer.is_durable and parts.broker.router.neighbours:
            self._cut_off = f"{parts.broker.name} has not met a neighbour since it started"  # who knows of stand-ins

    @property
    def cut_off(self) -> str:
        """Why clients are refused: this broker may have been replaced by a stand-in. Empty: they are not."""
        if self._cut_off and any(map(self._links.is_up, self._broker.router.neighbours)):
            self._cut_off = ""
        return self._cut_off

    # Hooks ---------------------------------------------------------------------------------------------------

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        refused = port is Port.CLIENTS and self.cut_off
        return HelloRefusal(ByeReason.REFUSED, refused) if refused else None

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        """A neighbour may say that it stops, and comes back."""
        if isinstance(frame, Bye) and frame.why is ByeReason.LEAVING:
            self._on_leave[peer] = None

    def start(self) -> None:
        self.host.resume()

    async def stop(self, *, is_fatal: bool) -> None:
        if not is_fatal:
            await self.host.stop()

    def status(self) -> dict[str, object]:
        """`stand_in`: the phase of this broker as one; empty where it is none. `hosts`: process ids of those here."""
        settings = self._settings()
        if settings.heal is None:
            return {"heal": None}
        reports = {neighbour: self._reports.of(neighbour) for neighbour in self._broker.router.neighbours}
        return {
            "heal": {
                "after": settings.heal.after,
                "grace": settings.heal.grace,
                "stand_in": self._reports.phase if settings.stand_in else "",
                "hosts": self.host.hosted,
                "knows_kin_of": sorted(name for name, report in reports.items() if report and report.is_complete),
                "cut_off": self.cut_off,
            }
        }

    # Silence -------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        settings, links = self._settings(), self._links
        if settings.heal is None:
            return
        self._seek_mates(now)
        neighbours = self._broker.router.neighbours
        self._heard_at = {peer: now if links.is_up(peer) else self._heard_at.get(peer, now) for peer in neighbours}
        self._on_leave = {peer: None for peer in self._on_leave if not links.is_up(peer)}
        self._prepare(now)
        patience = settings.heal.after + settings.heartbeat
        for peer, heard_at in self._heard_at.items():
            if now - heard_at >= patience and self._due.get(peer, now) <= now and peer not in self._consulting:
                self._due[peer] = now + AGAIN_SECONDS
                watched(self._see_to(peer))

    def _prepare(self, now: float) -> None:
        """Load a process while a neighbour is silent for which this broker would start a stand-in."""
        silent = [peer for peer, at in self._heard_at.items() if now - at > self._settings().heartbeat]
        reports = {peer: self._reports.of(peer) for peer in silent if peer not in self._on_leave}
        firsts = [
            min(each.neighbours)
            for peer, each in reports.items()
            if each and each.is_complete and peer not in self.host.hosted
        ]
        if self._broker.name in firsts:
            self.host.prepare()
        else:
            self.host.relax()

    async def _see_to(self, broker: Node) -> None:
        reason = await self.heal(broker)
        if reason and self._logged.get(broker) != reason:
            log.info("no stand-in for %s from here: %s", broker, reason)
        self._logged[broker] = reason

    def opinion(self, broker: Node) -> Opinion:
        session, now = self._endpoint.sessions.get(broker), self._clock()
        return Opinion(
            self._broker.name,
            linked=broker in self._broker.router.neighbours,
            up=self._links.is_up(broker),
            silent_seconds=now - self._heard_at.get(broker, now),
            epoch=session.peer_epoch if session else 0,
            guards=self._settings().heal is not None,
            on_leave=broker in self._on_leave,
            stand_in=self.host.place_of(broker),
        )

    def _seek_mates(self, now: float) -> None:
        """As a stand-in: neighbours that do not answer may be dead, too, and have stand-ins elsewhere."""
        stand_in = self._settings().stand_in
        if stand_in is None or self._reports.phase is not StandInPhase.GATHERING:
            return
        for neighbour, places in sorted(stand_in.beyond.items()):
            if neighbour not in self._links and self._due.get(neighbour, now) <= now:
                self._due[neighbour] = now + AGAIN_SECONDS
                watched(self._seek(neighbour, places))

    async def _seek(self, neighbour: Node, places: Sequence[str]) -> None:
        told = await asyncio.gather(*(_opinion(admin, neighbour) for admin in places))
        for opinion in told:
            if opinion is not None and opinion.stand_in:
                self._directory.mates[neighbour] = opinion.stand_in

    # Consultation --------------------------------------------------------------------------------------------

    async def heal(self, broker: Node, *, is_ordered: bool = False) -> str:
        """Start a stand-in, unless there is a reason not to, which is returned. `is_ordered`: by an operator."""
        if broker in self._consulting:
            return await asyncio.shield(self._consulting[broker])
        task = self._consulting[broker] = asyncio.ensure_future(self._consult(broker, is_ordered=is_ordered))
        try:
            return await asyncio.shield(task)
        finally:
            self._consulting.pop(broker, None)

    async def _consult(self, broker: Node, *, is_ordered: bool) -> str:
        name, heal, known = self._broker.name, self._settings().heal, self.opinion(broker)
        if heal is None:
            return f"healing is off at {name}; set [heal] after, or --heal-after"
        if not known.linked or not known.epoch:
            return f"{broker} is no neighbour of {name}, or was never heard by it"
        if broker in self.host.hosted:
            return "its stand-in runs here already"
        report = self._reports.of(broker) or NO_REPORT
        if await _answers(report.own.admin, broker):
            return f"{broker} answers its operators: it is alive"
        opinions = await self._opinions(broker, report)
        own = self.opinion(broker)
        hears = bool(opinions) or self._hears_others(broker) or await _reaches(report)
        self._note_whether_cut_off(hears_others=hears)
        if not report.is_complete:
            return f"{broker} has not told {name} where its neighbours are"
        reason = why_not(broker, own, opinions, heal.after, hears_others=hears, is_ordered=is_ordered)
        if not reason:
            epoch = max(time.time_ns(), 1 + max(each.epoch for each in (own, *opinions.values())))
            reason = self._start(broker, epoch, report)
        return reason

    def _start(self, broker: Node, epoch: int, report: NeighbourReport) -> str:
        """Returns why not: a stand-in has its neighbours from a report, which may name what no broker could have."""
        try:
            self.host.start(broker, epoch, report)
        except SettingsError as error:
            return f"the last report of {broker} is of no use: {error}"
        log.warning("%s is dead for good: a stand-in starts here, epoch %d", broker, epoch)
        self._counters.stand_ins_started += 1
        return ""

    async def _opinions(self, broker: Node, report: NeighbourReport) -> dict[Node, Opinion]:
        """Of the dead broker's other neighbours, as far as they answer."""
        others = {name: place.admin for name, place in report.neighbours.items() if name != self._broker.name}
        told = await asyncio.gather(*(_opinion(admin, broker) for admin in others.values()))
        return {name: each for name, each in zip(others, told, strict=True) if each is not None and each.name == name}

    def _hears_others(self, broker: Node) -> bool:
        return any(self._links.is_up(peer) for peer in self._broker.router.neighbours if peer != broker)

    def _note_whether_cut_off(self, *, hears_others: bool) -> None:
        if hears_others:
            self._cut_off = ""
        elif not self._cut_off:
            self._cut_off = f"{self._broker.name} hears no other broker, and may have a stand-in"
            log.warning("%s: clients are sent away until it hears one", self._cut_off)
            for link in [link for link in self._links.values() if link.port is Port.CLIENTS]:
                link.wire.close(self._cut_off)


def why_not(
    broker: Node,
    own: Opinion,
    others: Mapping[Node, Opinion],
    after: float,
    *,
    hears_others: bool,
    is_ordered: bool,
) -> str:
    """Why `own` starts no stand-in for a broker, in view of what its other neighbours say that answer; or nothing."""
    opinions = {**others, own.name: own}
    for name, opinion in sorted(opinions.items()):
        if not opinion.linked:
            return f"{name} says that it is no neighbour of {broker}"
        if opinion.up or (opinion.silent_seconds < after and not is_ordered):
            return f"{name} has heard of {broker} lately"
        if opinion.on_leave and not is_ordered:
            return f"{broker} has said goodbye to {name}, and comes back"
        if opinion.epoch > own.epoch:
            return f"{name} knows a newer {broker}"
    if is_ordered:
        return ""
    first = min(name for name, opinion in opinions.items() if opinion.guards)
    if first != own.name:
        return f"{first} sees to it"
    if not hears_others:
        return f"{own.name} hears nobody, and may be cut off itself; `pleach overlay heal {broker}` decides it"
    return ""


async def _answers(admin: str, broker: Node) -> bool:
    opinion = await _opinion(admin, broker)
    return opinion is not None and opinion.name == broker


async def _reaches(report: NeighbourReport) -> bool:
    """Whether anybody answers beyond a dead broker's other neighbours, if these are dead as well."""
    asked = [_opinion(place, neighbour) for neighbour, places in report.beyond.items() for place in places]
    return any(await asyncio.gather(*asked))


async def _opinion(admin: str, broker: Node) -> Opinion | None:
    """None where nobody answers who could know."""
    if not admin:
        return None
    try:
        body = {"broker": broker}
        answer = await ask(admin, "/overlay/opinion", body, seconds_max=ASK_SECONDS_MAX, bytes_max=OPINION_BYTES_MAX)
        return msgspec.convert(answer.value, Opinion) if answer.is_ok else None
    except DeniedError as error:
        log.warning("%s", error)
        return None
    except (UnreachableError, msgspec.ValidationError):
        return None
