"""One machine's part in the views of one broker: primary, standby, witness, or none yet.

    copy ── primary silent, a majority says so too ──▶ Prepare ──▶ Propose ──▶ Installed ──▶ Promote
    primary ── a member silent, another one whole ───▶ Prepare ──▶ Propose ──▶ Installed

An instance of viewstamped replication with witnesses (Oki and Liskov 1988; Harp, Liskov et al. 1991): of 2f + 1
members, f + 1 hold the data. It differs in two things. All copies acknowledge, not a majority, so that any of them can
become the primary without a merge of logs. And members change: each view's successor is chosen by single-decree Paxos
among its members, as in vertical Paxos (Lamport, Malkhi, Zhou 2009), without a master.

Rule 1: nothing is confirmed before all copies of the present view have acknowledged it in this view, and while the
        primary has promised no successor.
Rule 2: a copy acknowledges records of its newest view only, and only while it has promised no successor.
Rule 3: a view is followed by one with the same members and another copy as primary, which proposes it itself
        (promotion), or by one with the same primary, which proposes it (replacement).
Rule 4: who proposes its promotion has promised first. By rule 2 nothing more is confirmed in the old view from then on,
        and by rule 1 it has all that was.
Rule 5: a primary proposes new copies only if they have all that was confirmed; it has promised first, so that by rule 1
        nothing is confirmed meanwhile.
Rule 6: a copy seeks promotion only if it and a majority do not hear the primary. Who hears it promises nobody else.
Rule 7: who knows a newer view tells it to whoever speaks in an older one.

Rules 1 to 5 make it safe, whatever the timing; rule 6 keeps a primary in place that is heard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from pleach.core.messages.base import Node
from pleach.core.standby.composition import Candidate, Circle, composed, missing
from pleach.core.standby.effects import (
    CatchUp,
    Confirm,
    Depose,
    Discard,
    MemberEffect,
    Promote,
    SaveRegister,
    Serve,
    StoreRecord,
    ToMember,
)
from pleach.core.standby.leadership import Leadership
from pleach.core.standby.messages import (
    Accepted,
    Alive,
    Append,
    Appended,
    Ask,
    Astray,
    Dissolved,
    Here,
    Installed,
    Prepare,
    Promise,
    Propose,
    Refused,
    StandbyMessage,
    TakeOver,
    Unheard,
)
from pleach.core.standby.positions import Position
from pleach.core.standby.view_change import ViewChange
from pleach.core.standby.views import NO_BALLOT, Ballot, Machine, Register, View

DECREE_STEP = 1_000
BACK_OFF_SHARE = 0.25  # of `after`: the pause after a proposal that failed


class StandbyConfig(NamedTuple):
    """`after`: seconds of silence that count as death. `copies`: wanted, the primary's own among them."""

    after: float
    copies: int = 2


class StandbyMember:
    def __init__(
        self,
        machine: Machine,
        broker: Node,
        config: StandbyConfig,
        *,
        register: Register | None = None,
        position: Position | None = None,
        now: float = 0.0,
    ) -> None:
        """`register`, `position`: what is on this machine's disk of the broker."""
        self.machine = machine
        self.broker = broker
        self.config = config
        self.register = register
        self.position = position  # of the copy that is held here; None: none
        self.leadership: Leadership | None = None  # while the broker runs here
        self.candidates: tuple[Candidate, ...] = ()  # for a primary to choose from; the driver keeps it up to date
        self.heard: dict[Machine, float] = {}  # when each machine was heard last
        self._since = now
        self._change: ViewChange | None = None
        self._silent: dict[Machine, None] = {}  # members that do not hear the primary, as far as they have answered
        self._round = 0  # the highest of any ballot met in this view
        self._retry_at = now

    # What is known -------------------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        return self.register.view if self.register else None

    @property
    def number(self) -> int:
        return self.register.view.number if self.register else 0

    @property
    def is_primary(self) -> bool:
        return self.register is not None and self.register.view.primary == self.machine

    @property
    def is_standby(self) -> bool:
        return self.register is not None and self.machine in self.register.view.standbys

    @property
    def waits_for(self) -> list[Machine]:
        """The copies that have not acknowledged the last commit of this primary."""
        if self.leadership is None or self.register is None:
            return []
        leadership = self.leadership
        return [each for each in self.register.view.standbys if leadership.reached(each) < leadership.written]

    def lacks_majority(self, now: float) -> bool:
        """Whether too few members are heard to choose another view: then only an operator can (`decree`)."""
        if self.register is None:
            return False
        live = [each for each in self.register.view.members if not self._is_silent(each, now)]
        return len(live) < self.register.view.majority

    def takes_fill_of(self, machine: Machine, number: int) -> bool:
        return self.register is None or (machine == self.register.view.primary and number == self.number)

    def _is_silent(self, machine: Machine, now: float) -> bool:
        return machine != self.machine and now - self.heard.get(machine, self._since) >= self.config.after

    def _members(self) -> list[Machine]:
        """The others."""
        return [each for each in self.register.view.members if each != self.machine] if self.register else []

    # What the driver says ------------------------------------------------------------------------------------

    def found(self, address: str) -> Sequence[MemberEffect]:
        """Begin the first view of a broker that is new: it is alone in it, and lets no clients in yet."""
        assert self.register is None, "it has a view"
        self.register = Register(View(self.broker, 1, (self.machine,), (), {self.machine: address}))
        return [SaveRegister(self.register)]

    def lead(self, base: Position, run: int) -> Sequence[MemberEffect]:
        """The broker runs here, as the primary of the newest view known; its store was at `base` when it was opened."""
        assert self.is_primary, "only a primary leads"
        self.position, self.leadership = base, Leadership.begin(base, run)
        return [*self._greet(), *self._confirm()]

    def wrote(self, position: Position) -> Sequence[MemberEffect]:
        """A commit of the primary is on its own disk."""
        before, self.position = self.position, position
        if self.leadership is None:
            return ()
        assert before is not None, "who leads has a store"
        self.leadership.wrote(before, position)
        return self._confirm()

    def stored(self, position: Position) -> Sequence[MemberEffect]:
        """The replica has everything up to here on disk, by records or by a fill."""
        self.position = position
        teacher = self.register.view.primary if self.register is not None else self.last_heard
        if self.is_primary or not teacher or not self._is_open:
            return ()
        return [ToMember(teacher, Appended(self.broker, self.number, position))]

    def lost_track(self) -> Sequence[MemberEffect]:
        """The replica cannot take the record that came: the primary has to bring it up from where it is."""
        teacher = self.register.view.primary if self.register is not None else self.last_heard
        return [ToMember(teacher, Astray(self.broker, self.number, self.position))] if teacher else ()

    def lost_touch(self, machine: Machine) -> None:
        """What was sent to a machine may not arrive: it has to be brought up again."""
        if self.leadership is not None:
            self.leadership.following.pop(machine, None)

    def step_down(self, successor: Machine) -> Sequence[MemberEffect]:
        """Let a standby take over. The driver serves nobody from here on."""
        return [ToMember(successor, TakeOver(self.broker, self.number))]

    def decree(self, now: float) -> Sequence[MemberEffect]:
        """An operator makes this standby the primary, without a majority: the old one must be gone for good.

        The number is far above whatever the old members may choose among themselves: where they live, they yield.
        """
        assert self.register is not None
        wanted = self.register.view.promoting(self.machine)
        view = msgspec.structs.replace(wanted, number=self.number + DECREE_STEP)
        told = [ToMember(each, Installed(self.broker, view.number, view)) for each in self._members()]
        return [*self._install(view, now), *told]

    def dissolve(self) -> Sequence[MemberEffect]:
        """The broker leaves for good."""
        return [ToMember(each, Dissolved(self.broker, self.number)) for each in self._members()]

    def tick(self, now: float) -> Sequence[MemberEffect]:
        """Called several times within `after`."""
        if self._change is not None and now - self._change.since >= self.config.after:
            self._give_up(now)
        if self.leadership is not None:
            return [*self._greet(), *self._confirm(), *self._keep_composition(now)]
        if self.is_standby and self.position is not None:
            return self._watch(now)
        return ()

    # Messages ------------------------------------------------------------------------------------------------

    def handle(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        self.heard[sender] = now
        if isinstance(message, Installed):
            return self._install(message.view, now)
        if self.register is not None and message.number != self.number:
            return self._handle_of_other_view(sender, message, now)
        if isinstance(message, Prepare | Propose):
            return self._vote(sender, message, now)
        if isinstance(message, Promise | Accepted | Refused):
            return self._count(sender, message, now)
        return self._handle_in_view(sender, message, now)

    def _handle_in_view(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        match message:
            case Alive():
                return self._answer(sender)
            case Here(position=position, is_open=is_open):
                return self._note_copy(sender, position, is_open=is_open)
            case Appended(position=position):
                return self._note_copy(sender, position, is_open=True)
            case Astray(position=position):
                self.lost_touch(sender)
                return self._bring_up(sender, position)
            case Append(previous=previous, position=position, record=record):
                return [StoreRecord(previous, position, record)] if self._takes_records_of(sender) else ()
            case Ask():
                return [ToMember(sender, Unheard(self.broker, self.number, self._hears_nothing(now)))]
            case Unheard(is_silent=is_silent):
                return self._poll(sender, now, is_silent=is_silent)
            case TakeOver() if self.is_standby and self.position is not None:
                return self.seek_promotion(now, is_invited=True)
            case Dissolved():
                return self._forget(sender)
        return ()

    def _handle_of_other_view(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        """Rule 7. A machine that knows no view yet may answer a primary all the same: it becomes a member later."""
        assert self.register is not None
        if message.number > self.number:
            return [ToMember(sender, Ask(self.broker, self.number))]  # who is told
        is_stranger = message.number == 0 and sender not in self.register.view.members
        if is_stranger:
            return self._handle_in_view(sender, message, now) if isinstance(message, Here | Appended | Astray) else ()
        return [ToMember(sender, Installed(self.broker, self.number, self.register.view))]

    # As a copy or a witness ----------------------------------------------------------------------------------

    @property
    def last_heard(self) -> Machine:
        """Who fills a machine that knows no view yet."""
        return max(self.heard, key=self.heard.__getitem__, default="")

    @property
    def _is_open(self) -> bool:
        """Rule 2; what a machine has that is no copy yet, it may always say."""
        return self.register is None or self.register.is_open or self.machine not in self.register.view.copies

    def _answer(self, sender: Machine) -> Sequence[MemberEffect]:
        if self.leadership is not None:
            return ()
        return [ToMember(sender, Here(self.broker, self.number, self.position, self._is_open))]

    def _takes_records_of(self, sender: Machine) -> bool:
        """Rule 2; a machine that is to become a copy takes all."""
        if self.register is None or self.machine not in self.register.view.copies:
            return True
        return self._is_open and self.is_standby and sender == self.register.view.primary

    def _hears_nothing(self, now: float) -> bool:
        if self.register is None or self.leadership is not None:
            return False
        return self._is_silent(self.register.view.primary, now)

    def _watch(self, now: float) -> Sequence[MemberEffect]:
        """Ask the others about a primary that is silent; the first standby asks first."""
        assert self.register is not None
        view = self.register.view
        patience = self.config.after * (1 + view.standbys.index(self.machine) / 2)
        if (
            self._change is not None
            or now < self._retry_at
            or now - self.heard.get(view.primary, self._since) < patience
        ):
            self._silent.clear()
            return ()
        self._silent = {self.machine: None}
        return [ToMember(each, Ask(self.broker, self.number)) for each in self._members()]

    def _poll(self, sender: Machine, now: float, *, is_silent: bool) -> Sequence[MemberEffect]:
        if self.register is None or not self._silent or not is_silent or self._change is not None:
            return ()
        self._silent[sender] = None
        voters = [each for each in self._silent if each in self.register.view.members]
        return self.seek_promotion(now) if len(voters) >= self.register.view.majority else ()

    def _forget(self, sender: Machine) -> Sequence[MemberEffect]:
        if self.register is None or sender != self.register.view.primary:
            return ()
        self.register, self.position = None, None
        return [Discard()]

    # As the primary ------------------------------------------------------------------------------------------

    def _greet(self) -> Iterator[MemberEffect]:
        named = [each.machine for each in self.candidates if each.machine != self.machine]
        for each in dict.fromkeys([*self._members(), *named]):
            yield ToMember(each, Alive(self.broker, self.number))

    def _note_copy(self, sender: Machine, position: Position | None, *, is_open: bool) -> Sequence[MemberEffect]:
        leadership = self.leadership
        if leadership is None or self.register is None:
            return ()
        if is_open:
            leadership.closed.pop(sender, None)
        else:
            leadership.closed[sender] = None
        if position is not None and is_open:
            leadership.acknowledged[sender] = position
        return [*self._bring_up(sender, position), *self._confirm()]

    def _bring_up(self, machine: Machine, position: Position | None) -> Sequence[MemberEffect]:
        """A copy, or a machine that is to become one, which the driver does not send records to yet."""
        leadership = self.leadership
        if leadership is None or self.register is None or machine in leadership.following:
            return ()
        if machine not in (*self.register.view.standbys, *leadership.learners):
            return ()
        leadership.following[machine] = None
        return [CatchUp(machine, position)]

    def _confirm(self) -> Sequence[MemberEffect]:
        leadership = self.leadership
        if leadership is None or self.register is None or not self.register.is_open:
            return ()
        number = leadership.reached_by_all(self.register.view.standbys)
        effects: list[MemberEffect] = []
        if not leadership.is_serving and number >= leadership.base.number:
            leadership.is_serving = True
            effects.append(Serve(self.register.view))
        if number > leadership.confirmed:
            leadership.confirmed = number
            effects.append(Confirm(number))
        return effects

    def _keep_composition(self, now: float) -> Sequence[MemberEffect]:
        """Fill machines so that there are enough copies, and propose the view that should be."""
        leadership = self.leadership
        if leadership is None or self.register is None or self._change is not None or now < self._retry_at:
            return ()
        circle, view = self._circle(leadership, now), self.register.view
        leadership.learners = missing(view, circle, leadership.learners)
        for each in [each for each in leadership.following if each not in (*view.standbys, *leadership.learners)]:
            del leadership.following[each]
        wanted = composed(view, circle, leadership.learners)
        is_stuck = not self.register.is_open or any(each in leadership.closed for each in view.copies)
        return self.seek_replacement(wanted, now) if is_stuck or not view.is_like(wanted) else ()

    def _circle(self, leadership: Leadership, now: float) -> Circle:
        known = dict.fromkeys([self.machine, *self.heard])
        live = [each for each in known if not self._is_silent(each, now)]
        whole = [self.machine, *(each for each in known if leadership.is_whole(each))]
        candidates = [each for each in self.candidates if each.machine != self.machine]
        return Circle(live, whole, candidates, self.config.copies)

    # The choice of a successor -------------------------------------------------------------------------------

    def seek_promotion(self, now: float, *, is_invited: bool = False) -> Sequence[MemberEffect]:
        """Propose to be the primary (rule 4)."""
        assert self.register is not None
        return self._prepare(self.register.view.promoting(self.machine), now, is_invited=is_invited)

    def seek_replacement(self, wanted: View, now: float) -> Sequence[MemberEffect]:
        """Propose other members (rule 5)."""
        return self._prepare(wanted, now)

    def _prepare(self, wanted: View, now: float, *, is_invited: bool = False) -> Sequence[MemberEffect]:
        assert self.register is not None
        self._round = max(self._round, self.register.promised.round) + 1
        ballot = Ballot(self._round, self.machine)
        self.register = self.register.promising(ballot)
        self._silent.clear()
        self._change = ViewChange(ballot, wanted, now, {self.machine: self.register.accepted})
        message = Prepare(self.broker, self.number, ballot, is_invited)
        asked = [ToMember(each, message) for each in self._members()]
        return [SaveRegister(self.register), *asked, *self._propose_if_promised(now)]

    def _vote(self, sender: Machine, message: Prepare | Propose, now: float) -> Sequence[MemberEffect]:
        register = self.register
        if register is None or self.machine not in register.view.members:
            return ()
        self._round = max(self._round, message.ballot.round)
        if message.ballot < register.promised or (isinstance(message, Prepare) and message.ballot == register.promised):
            return [ToMember(sender, Refused(self.broker, self.number, message.ballot, register.promised))]
        match message:
            case Prepare(ballot=ballot, is_invited=is_invited):
                if not is_invited and sender != register.view.primary and not self._hears_nothing(now):
                    return [ToMember(sender, Refused(self.broker, self.number, ballot, NO_BALLOT))]
                self.register = register.promising(ballot)
                answer: StandbyMessage = Promise(self.broker, self.number, ballot, register.accepted)
            case Propose(ballot=ballot, view=view):
                self.register = register.accepting(ballot, view)
                answer = Accepted(self.broker, self.number, ballot)
        self._change = None  # what this machine has proposed itself is overtaken
        return [SaveRegister(self.register), ToMember(sender, answer)]

    def _count(self, sender: Machine, message: Promise | Accepted | Refused, now: float) -> Sequence[MemberEffect]:
        change = self._change
        if change is None or message.ballot != change.ballot:
            return ()
        match message:
            case Promise(accepted=accepted):
                change.promises[sender] = accepted
                return self._propose_if_promised(now)
            case Accepted():
                change.accepted[sender] = None
                return self._install_if_accepted(now)
            case Refused(promised=promised):
                self._round = max(self._round, promised.round)
                self._give_up(now)
        return ()

    def _give_up(self, now: float) -> None:
        """Try again later; machines do so at different times."""
        assert self.register is not None
        members = self.register.view.members
        turn = 1 + members.index(self.machine) if self.machine in members else 1
        self._change, self._retry_at = None, now + turn * BACK_OFF_SHARE * self.config.after

    def _propose_if_promised(self, now: float) -> Sequence[MemberEffect]:
        register, change = self.register, self._change
        assert register is not None
        assert change is not None
        if change.proposed is not None or len(change.promises) < register.view.majority:
            return ()
        view = change.choose()
        self.register = register.accepting(change.ballot, view)
        change.accepted[self.machine] = None
        message = Propose(self.broker, self.number, change.ballot, view)
        asked = [ToMember(each, message) for each in self._members()]
        return [SaveRegister(self.register), *asked, *self._install_if_accepted(now)]

    def _install_if_accepted(self, now: float) -> Sequence[MemberEffect]:
        register, change = self.register, self._change
        assert register is not None
        assert change is not None
        if change.proposed is None or len(change.accepted) < register.view.majority:
            return ()
        view, old = change.proposed, register.view
        told = [each for each in dict.fromkeys([*view.members, *old.members]) if each != self.machine]
        effects = self._install(view, now)
        return [*effects, *(ToMember(each, Installed(self.broker, view.number, view)) for each in told)]

    def _install(self, view: View, now: float) -> Sequence[MemberEffect]:
        if view.number <= self.number or (self.register is None and self.machine not in view.members):
            return ()
        is_deposed = self.is_primary and view.primary != self.machine
        was_member = self.register is not None and self.machine in self.register.view.members
        self.register = Register(view)
        self._change, self._round, self._retry_at = None, 0, now
        self._silent.clear()
        self.heard[view.primary] = now
        return [SaveRegister(self.register), *self._take_role(view, is_deposed=is_deposed, was_member=was_member)]

    def _take_role(self, view: View, *, is_deposed: bool, was_member: bool) -> Iterator[MemberEffect]:
        if view.primary == self.machine:
            if self.leadership is None:
                yield Promote(view)
                return
            self.leadership.view_installed()
            yield from self._confirm()
            return
        if is_deposed:  # also one that has not begun to lead
            self.leadership = None
            yield Depose(view)
        if self.machine in view.copies:
            yield ToMember(view.primary, Here(self.broker, view.number, self.position, is_open=True))
        elif was_member and self.machine not in view.members:  # else it may be filled to become one
            self.position = None
            yield Discard()
