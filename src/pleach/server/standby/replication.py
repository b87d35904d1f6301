"""A broker as the primary of its view: records to the copies, fills, confirmation, and who becomes a copy.

    commit ──▶ record ──▶ every machine that follows ──▶ Appended ──▶ member ── Confirm ──▶ outgoing.py ──▶ peers
          └──▶ own disk ─────────────────────────────▶ written ──▶ member

Rule 1: a record is posted to the event loop by the thread that commits, before it is on the own disk: both disks write
        at the same time. The order of posting is the order of commits, and that of sending.
Rule 2: a machine that is to be brought up gets the records that it lacks, where all of them are in memory, else a fill;
        from then on it gets every record, until its connection is lost or it is needed no more.
Rule 3: clients are let in once another machine has all that this one has (`Serve`, with two copies). Neighbours are let
        in before: they are who may hold the other copy. What they say is confirmed only when all copies have it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pleach.core.links.frames import ByeReason, Hello
from pleach.core.messages import HostLocation
from pleach.core.standby.composition import Candidate
from pleach.core.standby.effects import CatchUp, Confirm, Depose, Discard, MemberEffect, Promote, Serve, StoreRecord
from pleach.core.standby.leadership import NOT_CAUGHT_UP
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.messages import Append
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, View, ViewNumber
from pleach.errors import PromotionError
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.links import Port
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts
from pleach.server.standby.fill_sender import FillSender, Follower
from pleach.server.standby.messages import (
    AnyFillMessage,
    BetweenMachines,
    FillMessage,
    FillRefused,
    FillTaken,
    SendFiles,
)
from pleach.server.standby.moving import BrokerMove, MovePhase, best_heir
from pleach.server.standby.primary_seat import PrimarySeat
from pleach.server.standby.record_log import Lag, LoggedRecord
from pleach.server.standby.registers import display

log = logging.getLogger(__name__)

PATIENCE = 2.0  # times what counts as silence: then clients that come are told why they have to wait

Announce: TypeAlias = Callable[[Machine, HostLocation], None]


class Replication(Feature):
    def __init__(
        self, parts: NodeParts, seat: PrimarySeat, candidates: Callable[[], Sequence[Candidate]], announce: Announce
    ) -> None:
        """`candidates`: machines for copies, the best first. `announce`: tell the other brokers of a machine."""
        assert seat.log is not None, "the store was opened"
        self._log = seat.log
        self._seat, self._candidates, self._announce = seat, candidates, announce
        self._zone = parts.settings().zone
        parts.directory.ask_host = seat.host.locate
        self._name, self._outgoing, self._directory = parts.broker.name, parts.committer.outgoing, parts.directory
        self._disk = parts.committer.await_copies(self._written)
        self._driver = seat.driver
        self._followers: dict[Machine, Follower] = {}
        self._is_whole = False  # all copies had what this primary had when it began
        self._is_serving = False
        self._move: BrokerMove | None = None  # to another machine, as an operator has asked, or as this one is leaving
        self._is_machine_leaving = False
        self._note_view()
        seat.role = self

    @property
    def member(self) -> StandbyMember:
        return self._driver.member

    @property
    def is_whole(self) -> bool:
        """Whether all copies have had what this primary had when it began: so it is the primary of their view."""
        return self._is_whole

    # Beginning and time --------------------------------------------------------------------------------------

    def start(self) -> None:
        """The process listens."""
        if not self.member.is_primary:
            return  # it was deposed while it was being started
        client_address = self._seat.host.client_address or self._directory.places.client
        own = HostLocation(time.time_ns(), self._address, self._zone, client_address)
        self.meet_host(self.member.machine, own)
        self._seat.begin_to_lead()
        self._written(self._disk.store.position)

    def before_member_tick(self) -> None:
        usual, now = self._candidates(), self._driver.now
        if self._is_machine_leaving and usual and not self._is_moving:
            self._begin_move(best_heir(usual, self.member, now).address)
        others = self._move.candidates(usual, now) if self._move is not None else usual
        own = Candidate(self.member.machine, self._address)  # which may be another one after a restart
        self.member.candidates = (own, *others) if others else ()
        self._note_view()
        if self._move is not None:
            self._driver.perform(self._move.effects(now))

    def move_to(self, to: str) -> None:
        """Move the broker to the machine whose host process is called so, or listens there. Raises PromotionError."""
        hosts = {display(machine): host.address for machine, host in self._directory.known.hosts.items()}
        hosts |= {display(each.machine): each.address for each in self.member.candidates}
        address = hosts.get(to, to if ":" in to else "")
        if not address:
            raise PromotionError(f"no machine {to!r} is known: give the HOST:PORT at which it listens for peers")
        if address == self._address:
            raise PromotionError(f"{self._name} runs there already")
        if not self._is_serving:
            raise PromotionError(f"{self._name} {self._why_not_serving()}: it cannot be moved before that")
        self._begin_move(address)

    def _begin_move(self, address: str) -> None:
        self._move = BrokerMove(address, self.member, self._seat.links.machine_at, self._driver.now)

    @property
    def _is_moving(self) -> bool:
        return self._move is not None and self._move.phase is not MovePhase.GIVEN_UP

    @property
    def _address(self) -> str:
        """Of this machine's host process."""
        return self._seat.host.address or self._directory.places.peer

    def meet_host(self, machine: Machine, host: HostLocation) -> None:
        """A machine may hold copies, or is leaving: then this broker does, too, if it runs there."""
        self._announce(machine, host)
        if machine == self.member.machine:
            self._is_machine_leaving = host.is_leaving

    def overtaken(self, number: ViewNumber) -> None:
        """A neighbour knows a newer view: the members do, too, if there is one."""
        self._driver.tick()

    def settings_applied(self) -> None:
        """The broker's settings or its certificate may be others."""
        for machine in self._followers:
            self._send_files(machine)

    # What the member wants -----------------------------------------------------------------------------------

    def perform(self, effect: MemberEffect) -> None:
        match effect:
            case CatchUp(machine, position):
                self._bring_up(machine, position)
            case Confirm(number):
                self._outgoing.confirmed(number)
            case Serve():
                self._is_whole = True
                self._note_view()
            case Depose(view):
                self._end_followers()
                self._seat.on_deposed(view)
            case Discard() | StoreRecord() | Promote():
                pass  # it was deposed, and is ending: what comes for its copy is sent again to the process that follows
            case _:
                raise AssertionError(f"a primary does not {effect}")

    def _note_view(self) -> None:
        """Rule 3; and what is said of the view to peers."""
        view = self.member.view
        if self.member.is_primary:
            self._directory.view = view
        if self._is_serving or not self._is_whole or view is None or not view.may_have_clients:
            return
        self._is_serving = True
        log.info("view %d: %s; clients are let in", view.number, _told(view))

    # Records and fills ---------------------------------------------------------------------------------------

    def recorded(self, logged: LoggedRecord) -> None:
        """The store is about to write a record."""
        leadership = self.member.leadership
        for machine, follower in list(self._followers.items()):
            if leadership is None or machine not in leadership.following:
                follower.end()
                del self._followers[machine]
            elif follower.takes_records:
                self._append(machine, logged)

    def _append(self, machine: Machine, logged: LoggedRecord) -> None:
        number = self.member.number
        self._driver.send(machine, Append(self._name, number, logged.previous, logged.position, logged.record))

    def _written(self, position: Position) -> None:
        """All up to here is on the own disk."""
        self._driver.perform(self.member.wrote(position))

    def _bring_up(self, machine: Machine, position: Position | None) -> None:
        """Rule 2."""
        if machine in self._followers:
            self._followers.pop(machine).end()
        records = self._log.since(position)
        if records is None:
            self._begin_fill(machine)
            return
        self._followers[machine] = Follower(machine)
        self._send_files(machine)
        for logged in records:
            self._append(machine, logged)

    def _begin_fill(self, machine: Machine) -> None:
        def send(message: AnyFillMessage) -> None:
            self._driver.send(machine, message)

        def failed() -> None:
            self.member.lost_touch(machine)

        log.info("%s gets a copy of all that %s has", display(machine), self._name)
        number = time.time_ns()
        fill = FillSender(self._name, number, self._disk, view=lambda: self.member.number, send=send, on_failed=failed)
        self._followers[machine] = Follower(machine, fill)
        fill.begin(self._seat.files())

    def _send_files(self, machine: Machine) -> None:
        self._driver.send(machine, SendFiles(self._name, self.member.number, self._seat.files()))

    def end(self) -> None:
        """The store is closed: nothing more is read from it, whatever was read before and is posted only now."""
        self._end_followers()

    def _end_followers(self) -> None:
        for follower in self._followers.values():
            follower.end()
        self._followers.clear()

    # Messages ------------------------------------------------------------------------------------------------

    def received(self, machine: Machine, message: BetweenMachines) -> None:
        match message:
            case FillTaken(fill=fill, chunk=chunk):
                if (sender := self._fill_to(machine, fill)) is not None:
                    sender.note_taken(chunk)
                    self.member.filling(machine, self._driver.now)
            case FillRefused(fill=fill, reason=reason):
                if fill == 0 or self._fill_to(machine, fill) is not None:
                    log.warning("%s has not taken what %s sent: %s", display(machine), self._name, reason)
                    self.lost(machine)
            case FillMessage():
                pass  # for copies
            case _:
                self._driver.handle(machine, message)
                self._note_view()

    def lost(self, machine: Machine) -> None:
        """What was sent to a machine may not arrive."""
        if machine in self._followers:
            self._followers.pop(machine).end()
        self.member.lost_touch(machine)

    def _fill_to(self, machine: Machine, fill: int) -> FillSender | None:
        follower = self._followers.get(machine)
        return follower.fill if follower is not None and follower.fill and follower.fill.fill_id == fill else None

    # Clients -------------------------------------------------------------------------------------------------

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """Who has to wait for long is told why, instead of nothing."""
        if port is Port.PEERS:
            return None
        reason = self._why_waiting(PATIENCE) if self._is_serving else self._why_not_serving()
        return HelloRefusal(ByeReason.LEAVING, f"{self._name} {reason}") if reason else None

    def _why_not_serving(self) -> str:
        if self._is_whole:
            return "has no standby yet, and serves no clients before"
        waits = ", ".join(map(display, self.member.waits_for))
        return f"waits for its standby {waits} to have all that it has, and serves no clients before"

    # What operators see --------------------------------------------------------------------------------------

    def unready(self) -> str:
        if not self._is_serving:
            return self._why_not_serving()
        return self._why_waiting(1.0) or self._why_no_majority(self._driver.now)

    def _why_waiting(self, patience: float) -> str:
        """Why nothing is confirmed for so many times what counts as silence; empty: something is."""
        now = self._driver.now
        waiting = self._lag_of_all(now).seconds
        if waiting < patience * self.member.config.after:
            return ""
        names = ", ".join(map(display, self.member.waits_for)) or "its members"
        lacking = self._why_no_majority(now)
        return f"confirms nothing for {waiting:.1f} s: it waits for {names}" + (f"; {lacking}" if lacking else "")

    def _why_no_majority(self, now: float) -> str:
        view = self.member.view
        if view is None or not self.member.lacks_majority(now):
            return ""
        others = [each for each in view.members if each != self.member.machine]
        silent = ", ".join(display(each) for each in others if self.member.timing.is_silent(each, now))
        return f"too few of its machines answer to choose others ({silent} silent)"

    def _lag_of_all(self, now: float) -> Lag:
        """Of what is confirmed."""
        leadership = self.member.leadership
        return self._log.lag(leadership.confirmed, now) if leadership else Lag(0, 0, 0.0)

    def status(self) -> dict[str, object]:
        member, now = self.member, self._driver.now
        view, waiting = member.view, self._lag_of_all(now)
        told: dict[str, object] = {
            "machine": member.machine,
            "view": view.number if view else 0,
            "covered": self._is_covered(now),
            "copies": {each: self._copy(each, now) for each in (view.standbys if view else ())},
            "witnesses": list(view.witnesses if view else ()),
            "filling": sorted(each for each, follower in self._followers.items() if follower.is_filling),
            "serving": self._is_serving,
            "waiting": {"records": waiting.records, "seconds": waiting.seconds, "for": member.waits_for},
            "lacks_majority": member.lacks_majority(now),
            "moving": self._move.status() if self._move is not None else None,
            **self._seat.host.status(),
        }
        return {"standby": told}

    def _is_covered(self, now: float) -> bool:
        """Whether there are as many copies and members as wanted, all of them answer, and the copies follow."""
        view, config = self.member.view, self.member.config
        if view is None or not self._is_serving or len(view.copies) < config.copies:
            return False
        others = [each for each in view.members if each != self.member.machine]
        is_heard = all(now - self.member.heard.get(each, 0.0) < config.after for each in others)
        follows = all(self._lag(each, now) is not None for each in view.standbys)
        return len(view.members) >= 2 * config.copies - 1 and is_heard and follows

    def _copy(self, machine: Machine, now: float) -> dict[str, object]:
        lag, heard = self._lag(machine, now), self.member.heard.get(machine)
        return {
            "address": self._driver.address_of(machine),
            "silent_seconds": now - heard if heard is not None else None,
            "behind": lag._asdict() if lag else None,  # None: it has to be brought up first
        }

    def _lag(self, machine: Machine, now: float) -> Lag | None:
        leadership = self.member.leadership
        reached = leadership.reached(machine) if leadership else NOT_CAUGHT_UP
        return self._log.lag(reached, now) if reached != NOT_CAUGHT_UP else None

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        now, view = self._driver.now, self.member.view
        if view is None:
            return {}
        lags = {display(each): lag for each in view.standbys if (lag := self._lag(each, now)) is not None}
        return {
            "pleach_standby_view": [MetricSample(view.number)],
            "pleach_standby_copies": [MetricSample(1 + len(lags))],
            "pleach_standby_covered": [MetricSample(int(self._is_covered(now)))],
            "pleach_standby_majority": [MetricSample(int(not self.member.lacks_majority(now)))],
            "pleach_standby_waiting_seconds": [MetricSample(self._lag_of_all(now).seconds)],
            "pleach_standby_behind_records": [MetricSample(lag.records, each) for each, lag in lags.items()],
            "pleach_standby_behind_bytes": [MetricSample(lag.bytes, each) for each, lag in lags.items()],
        }


def _told(view: View) -> str:
    copies, witnesses = (", ".join(map(display, each)) for each in (view.copies, view.witnesses))
    return f"copies at {copies}" + (f", votes at {witnesses}" if witnesses else "")
