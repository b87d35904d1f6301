"""One machine's part in the views of one broker: primary, standby, witness, or none yet.

    copy ── primary silent, a majority says so too ──▶ Prepare ──▶ Propose ──▶ ViewInstalled ──▶ Promote
    primary ── a member silent, another one whole ───▶ Prepare ──▶ Propose ──▶ ViewInstalled

An instance of viewstamped replication with witnesses (Oki and Liskov 1988; Harp, Liskov et al. 1991): of 2f + 1
members, f + 1 hold the data. It differs in two things. All copies acknowledge, not a majority, so that any of them can
become the primary without a merge of logs. And members change: each view's successor is chosen by single-decree Paxos
among its members, as in vertical Paxos (Lamport, Malkhi, Zhou 2009), without a master.

Rule 1: nothing is confirmed before all copies of the present view have acknowledged it in this view, and while the
        primary has promised no successor.
Rule 2: a copy acknowledges in its newest view only.
Rule 3: a view is followed by one with the same members and another copy as primary, which proposes it itself
        (promotion), or by one with the same primary, which proposes it (replacement).
Rule 4: by rule 1 nothing is confirmed in the old view without the copy that is promoted, and by rule 2 it acknowledges
        nothing there once it has the new view: so it has all that was confirmed.
Rule 5: a primary proposes new copies only if they have all that was confirmed; it has promised first, so that by rule 1
        nothing is confirmed meanwhile.
Rule 6: records and fills are taken from the primary of the newest view that a machine has saved, and sent in that view
        or in one before it since which it has been the primary. Who is to become a copy is told the view first.
Rule 7: who knows a newer view tells it to whoever speaks in an older one. It is believed from its members, and from
        those of the view that is known.
Rule 8: a copy seeks promotion only if it and a majority do not hear the primary. Who hears it promises nobody else.
Rule 9: a primary says whether a majority answers it. One that lacks a majority counts as silent, also to itself: it
        could not confirm for long.
Rule 10: a primary that is being started says that it is alive, for a while.
Rule 11: whoever does not hear the primary asks the other members, so that a view spreads though all are gone who chose
        it. Who has left a view does so, now and then, until a majority of its members has answered.
Rule 12: nobody closes a view (promises) for a change that too few can agree to.

Rules 1 to 6 make it safe, whatever the timing; the others let a primary serve again, and keep one in place that is
heard. docs/protocols/standby.md has the schedules that break without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pleach.core.messages.base import Node
from pleach.core.standby.composition import Availability, Candidate, composed, missing
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
    Prepare,
    Promise,
    Propose,
    Rejected,
    StandbyMessage,
    TakeOver,
    Unheard,
    ViewInstalled,
)
from pleach.core.standby.positions import Position
from pleach.core.standby.timing import MemberTiming
from pleach.core.standby.view_change import ViewChange
from pleach.core.standby.views import (
    NO_BALLOT,
    ROUNDS_AHEAD_MAX,
    VIEWS_AHEAD_MAX,
    Ballot,
    Machine,
    Register,
    View,
)

DECREE_STEP = 1_000


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
        self.timing = MemberTiming(config.after, now)
        self._change: ViewChange | None = None
        self._answers: dict[Machine, bool] = {}  # who was asked, and answered: whether the primary is silent
        self._round = 0  # the highest of any ballot met in this view
        self._primary_since = self.number  # the first of the views in a row that have this primary (rule 6)

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
    def heard(self) -> dict[Machine, float]:
        """When each machine has answered last."""
        return self.timing.heard

    @property
    def waits_for(self) -> list[Machine]:
        """The copies that have not acknowledged the last commit of this primary."""
        if self.leadership is None or self.register is None:
            return []
        leadership = self.leadership
        return [each for each in self.register.view.standbys if leadership.reached(each) < leadership.written]

    def lacks_majority(self, now: float) -> bool:
        """Whether too few members answer to choose another view: then only an operator can (`decree`).

        Who hears the primary asks nobody, and does not lack anything.
        """
        if self.register is None or not (self.is_primary or self.timing.is_primary_silent(now, patience=2.0)):
            return False
        members = self.register.view.members
        live = [each for each in members if each == self.machine or not self.timing.is_silent(each, now)]
        return len(live) < self.register.view.majority

    def takes_fill_of(self, machine: Machine, number: int) -> bool:
        """Rule 6, for messages of a fill: asked when it begins, and again before it takes the place of what is here.

        `number`: the view in which the message was sent.
        """
        return self._is_taught_by(machine, number)

    def _is_taught_by(self, machine: Machine, number: int) -> bool:
        if self.register is None or self.is_primary or machine != self.register.view.primary:
            return False
        return self._primary_since <= number <= self.number

    @property
    def _members(self) -> list[Machine]:
        """The others."""
        return [each for each in self.register.view.members if each != self.machine] if self.register else []

    @property
    def _is_member(self) -> bool:
        return self.register is not None and self.machine in self.register.view.members

    # What the driver says ------------------------------------------------------------------------------------

    def found(self, address: str, first: int = 1) -> Sequence[MemberEffect]:
        """Begin the first view of a broker that is new: it is alone in it, and lets no clients in yet.

        `first`: its number, above those of a broker that had this name before.
        """
        assert self.register is None, "it has a view"
        self.register = Register(View(self.broker, first, (self.machine,), (), {self.machine: address}))
        self._primary_since = first
        return [SaveRegister(self.register)]

    def lead(self, base: Position, run: int) -> Sequence[MemberEffect]:
        """The broker runs here, as the primary of the newest view known; its store was at `base` when it was opened."""
        assert self.is_primary, "only a primary leads"
        self.position, self.leadership = base, Leadership.begin(base, run)
        return [*self._greet(self.timing.now), *self._confirm()]

    def starting(self, now: float) -> None:
        """The broker is being started here, and that goes on: said again within ten times `after`."""
        self.timing.note_start(now)

    def cannot_lead(self) -> None:
        """The broker does not start here: let another copy become the primary."""
        self.timing.end_start()

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
        if self.register is None or self.is_primary:
            return ()
        return [ToMember(self.register.view.primary, Appended(self.broker, self.number, position))]

    def lost_track(self, *, needs_fill: bool = False) -> Sequence[MemberEffect]:
        """The replica cannot take the record that came: the primary has to bring it up from where it is.

        `needs_fill`: records do not help.
        """
        if self.register is None or self.is_primary:
            return ()
        position = None if needs_fill else self.position
        return [ToMember(self.register.view.primary, Astray(self.broker, self.number, position))]

    def lost_touch(self, machine: Machine) -> None:
        """What was sent to a machine may not arrive: it has to be brought up again."""
        if self.leadership is not None:
            self.leadership.following.pop(machine, None)

    def filling(self, machine: Machine, now: float) -> None:
        """The fill of a machine gets further."""
        self.timing.note_filling(machine, now)

    def step_down(self, successor: Machine) -> Sequence[MemberEffect]:
        """Let a standby take over. The driver serves nobody from here on."""
        if self.register is None or not self.is_primary or successor not in self.register.view.standbys:
            return ()
        return [ToMember(successor, TakeOver(self.broker, self.number))]

    def decree(self, now: float) -> Sequence[MemberEffect]:
        """An operator makes this copy the primary, alone, without a majority: the others must be gone for good.

        The number is far above whatever the old members may choose among themselves: where they live, they yield, and
        keep their data, in case the operator was wrong.
        """
        assert self.register is not None
        assert self.position is not None, "it has a copy"
        view, members = self.register.view, self.register.view.members
        turn = members.index(self.machine) if self.machine in members else len(members)
        addresses = {self.machine: view.addresses.get(self.machine, "")}
        number = view.number + DECREE_STEP + turn
        decreed = View(self.broker, number, (self.machine,), (), addresses, is_decreed=True)
        return self._install(decreed, now, is_told=True)

    def dissolve(self) -> Sequence[MemberEffect]:
        """The broker leaves for good."""
        return [ToMember(each, Dissolved(self.broker, self.number)) for each in self._members]

    def tick(self, now: float) -> Sequence[MemberEffect]:
        """Called at least four times within `after`, also before `lead`."""
        self.timing.ran(now)
        if self._change is not None and self.timing.is_attempt_over(now):
            self._give_up(now)
        if self.leadership is not None:
            return [*self._greet(now), *self._confirm(), *self._keep_composition(now)]
        if self.is_primary:
            return [*self._greet(now)] if self.timing.is_starting(now) else ()
        return self._watch(now)

    # Messages ------------------------------------------------------------------------------------------------

    def handle(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        self.timing.ran(now)
        if message.broker != self.broker or sender == self.machine:
            return ()
        if isinstance(message, ViewInstalled):
            return self._learn(sender, message, now)
        if self.register is None:
            return self._handle_without_view(sender, message)
        if message.number != self.number:
            return self._handle_of_other_view(sender, message, now)
        if isinstance(message, Prepare | Propose):
            return self._vote(sender, message, now)
        if isinstance(message, Promise | Accepted | Rejected):
            return self._count(sender, message, now)
        if self.is_primary:
            return self._handle_as_primary(sender, message, now)
        if sender == self.register.view.primary:
            return self._handle_of_primary(message, now)
        return self._handle_of_member(sender, message, now)

    def _handle_as_primary(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        match message:
            case Here(position=position) | Appended(position=position):
                self._note_answer(sender, now)
                return self._note_copy(sender, position)
            case Astray(position=position):
                self._note_answer(sender, now)
                return self._note_astray(sender, position)
            case Ask():
                return self._say_whether_silent(sender, now)
        return ()

    def _handle_of_primary(self, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        assert self.register is not None
        primary = self.register.view.primary
        match message:
            case Alive(is_able=is_able):
                if is_able:
                    self.timing.note_primary(now)
                return [ToMember(primary, self._here())]
            case Append():
                return [StoreRecord(message.previous, message.position, message.record)]
            case Ask():
                return self._say_whether_silent(primary, now)
            case Unheard(is_silent=is_silent):
                if not is_silent:
                    self.timing.note_primary(now)
                return self._poll(primary, now, is_silent=is_silent)
            case TakeOver() if self.is_standby and self.position is not None and self._change is None:
                return self.seek_promotion(now, is_invited=True)
            case Dissolved():
                self.register, self.position, self._change = None, None, None
                return [Discard()]
        return ()

    def _handle_of_member(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        match message:
            case Ask():
                return self._say_whether_silent(sender, now)
            case Unheard(is_silent=is_silent):
                return self._poll(sender, now, is_silent=is_silent)
        return ()

    def _handle_without_view(self, sender: Machine, message: StandbyMessage) -> Sequence[MemberEffect]:
        """It may answer a primary all the same: it becomes a member later. Who counts it as one tells it the view."""
        if message.number == 0:
            return ()
        answer = self._here() if isinstance(message, Alive) else Ask(self.broker, 0)
        return [ToMember(sender, answer)]

    def _handle_of_other_view(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        """Rule 7."""
        assert self.register is not None
        if message.number > self.number:
            return [ToMember(sender, Ask(self.broker, self.number))]  # who is told
        if isinstance(message, Append) and self._is_taught_by(sender, message.number):
            return self._handle_of_primary(message, now)
        if message.number == 0 and sender not in self._members:
            self._note_answer(sender, now)
            if self.leadership is None or sender not in self.leadership.learners:
                return ()
        return [ToMember(sender, ViewInstalled(self.broker, self.number, self.register.view))]

    def _learn(self, sender: Machine, message: ViewInstalled, now: float) -> Sequence[MemberEffect]:
        """Rule 7. A machine without a view learns one that it is in, or one whose primary is about to fill it."""
        view = message.view
        is_sound = view.is_well_formed and view.broker == self.broker and view.number == message.number
        if not is_sound or not self.number < view.number <= self.number + VIEWS_AHEAD_MAX:
            return ()
        if self.register is None:
            is_believed = sender in view.members and (self.machine in view.members or sender == view.primary)
        else:
            is_believed = sender in view.members or sender in self._members
        return self._install(view, now) if is_believed else ()

    # As a copy or a witness ----------------------------------------------------------------------------------

    def _here(self) -> Here:
        return Here(self.broker, self.number, self.position)

    def _is_primary_out(self, now: float) -> bool:
        """Whether this machine, too, would have another primary (rules 8, 9 and 10)."""
        if self.leadership is not None:
            return self.lacks_majority(now)
        return not self.timing.is_starting(now) if self.is_primary else self.timing.is_primary_silent(now)

    def _say_whether_silent(self, sender: Machine, now: float) -> Sequence[MemberEffect]:
        return [ToMember(sender, Unheard(self.broker, self.number, self._is_primary_out(now)))]

    def _watch(self, now: float) -> Sequence[MemberEffect]:
        """Rule 11. The first standby asks first."""
        if self.register is None or self._change is not None or not self.timing.may_attempt(now):
            return ()
        view = self.register.view
        if not self._is_member:
            if len(self._answers) >= view.majority:
                return ()
            self.timing.ask_later(now)
        else:
            self._answers.clear()
            patience = 1 + view.standbys.index(self.machine) / 2 if self.is_standby else 1.0
            if not self.timing.is_primary_silent(now, patience=patience):
                return ()
            self._answers[self.machine] = True
        return [ToMember(each, Ask(self.broker, self.number)) for each in self._members]

    def _poll(self, sender: Machine, now: float, *, is_silent: bool) -> Sequence[MemberEffect]:
        if self.register is None or sender not in self._members:
            return ()
        self._note_answer(sender, now)
        if self._is_member and not self._answers:
            return ()  # nobody was asked
        self._answers[sender] = is_silent
        if not self.is_standby or self.position is None or self._change is not None:
            return ()
        voters = [each for each, is_silent in self._answers.items() if is_silent]
        return self.seek_promotion(now) if len(voters) >= self.register.view.majority else ()

    # As the primary ------------------------------------------------------------------------------------------

    def _note_answer(self, sender: Machine, now: float) -> None:
        if sender in self._members or any(sender == each.machine for each in self.candidates):
            self.timing.note_heard(sender, now)

    def _greet(self, now: float) -> Iterator[MemberEffect]:
        named = [each.machine for each in self.candidates if each.machine != self.machine]
        message = Alive(self.broker, self.number, not self.lacks_majority(now))
        for each in dict.fromkeys([*self._members, *named]):
            yield ToMember(each, message)

    def _note_copy(self, sender: Machine, position: Position | None) -> Sequence[MemberEffect]:
        if self.leadership is None or sender not in self._taught:
            return ()
        if position is not None:
            self.leadership.acknowledged[sender] = position
        return [*self._bring_up(sender, position), *self._confirm()]

    def _note_astray(self, sender: Machine, position: Position | None) -> Sequence[MemberEffect]:
        """Records that were sent before it was brought up are answered so, too: one answer is enough."""
        following = self.leadership.following if self.leadership is not None else {}
        if sender in following and following[sender] != position:
            del following[sender]
        return self._bring_up(sender, position)

    @property
    def _taught(self) -> tuple[Machine, ...]:
        """Who gets records, or should: copies, and machines that are to become some."""
        if self.leadership is None or self.register is None:
            return ()
        return (*self.register.view.standbys, *self.leadership.learners)

    def _bring_up(self, machine: Machine, position: Position | None) -> Sequence[MemberEffect]:
        """A machine that the driver does not send records to yet."""
        if self.leadership is None or machine in self.leadership.following or machine not in self._taught:
            return ()
        self.leadership.following[machine] = position
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
        assert leadership is not None
        assert self.register is not None
        available, view = self._available(leadership, now), self.register.view
        leadership.learners = missing(view, available, leadership.learners)
        for each in [each for each in leadership.following if each not in self._taught]:
            del leadership.following[each]
        if self._change is not None or not self.timing.may_attempt(now) or self.lacks_majority(now):
            return ()
        wanted = composed(view, available, leadership.learners)
        is_wanted = not self.register.is_open or not view.is_like(wanted)
        return self.seek_replacement(wanted, now) if is_wanted else ()

    def _available(self, leadership: Leadership, now: float) -> Availability:
        candidates = self.timing.candidates(self.candidates, now)
        known = dict.fromkeys([self.machine, *self._members, *(each.machine for each in candidates)])
        self.timing.keep_only(known)
        live = [each for each in known if each == self.machine or self._is_live(each, now)]
        whole = [self.machine, *(each for each in known if leadership.is_whole(each))]
        return Availability(live, whole, candidates, self.config.copies, self._stalled(leadership, now))

    def _is_live(self, machine: Machine, now: float) -> bool:
        """A member is not taken for dead before `after` has passed; nobody else is taken for live who never answered:
        of machines that brokers tell each other of, some may be gone for long.
        """
        return not self.timing.is_silent(machine, now) and (machine in self._members or machine in self.timing.heard)

    def _stalled(self, leadership: Leadership, now: float) -> list[Machine]:
        """Who are behind, and get no further: they are brought up once more, and others beside them."""
        self.timing.follow_only(self._taught)
        for each in self._taught:
            self.timing.note_progress(each, leadership.reached(each), leadership.written, now)
        stalled = [each for each in self._taught if self.timing.is_stalled(each, now)]
        for each in stalled:
            if self.timing.is_due_again(each, now):
                leadership.following.pop(each, None)
        return stalled

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
        self._answers.clear()
        self._change = ViewChange(ballot, wanted, {self.machine: self.register.accepted})
        self.timing.begin_attempt(now)
        message = Prepare(self.broker, self.number, ballot, is_invited)
        asked = [ToMember(each, message) for each in self._members]
        return [SaveRegister(self.register), *asked, *self._propose_if_promised(now)]

    def _vote(self, sender: Machine, message: Prepare | Propose, now: float) -> Sequence[MemberEffect]:
        register = self.register
        if register is None or not self._is_member or not self._may_propose(sender, message):
            return ()
        self._round = max(self._round, message.ballot.round)
        if message.ballot < register.promised or (isinstance(message, Prepare) and message.ballot == register.promised):
            return [ToMember(sender, Rejected(self.broker, self.number, message.ballot, register.promised))]
        match message:
            case Prepare(ballot=ballot, is_invited=is_invited):
                if not is_invited and sender != register.view.primary and not self._is_primary_out(now):
                    return [ToMember(sender, Rejected(self.broker, self.number, ballot, NO_BALLOT))]
                self.register = register.promising(ballot)
                answer: StandbyMessage = Promise(self.broker, self.number, ballot, register.accepted)
            case Propose(ballot=ballot, view=view):
                self.register = register.accepting(ballot, view)
                answer = Accepted(self.broker, self.number, ballot)
        self._change = None  # what this machine has proposed itself is overtaken
        self.timing.give_way(now)
        return [SaveRegister(self.register), ToMember(sender, answer)]

    def _may_propose(self, sender: Machine, message: Prepare | Propose) -> bool:
        """Rule 3, and what honest machines send."""
        assert self.register is not None
        view, ballot = self.register.view, message.ballot
        is_proposer = sender in view.copies and ballot.machine == sender
        is_sane = 0 < ballot.round <= max(self._round, self.register.promised.round) + ROUNDS_AHEAD_MAX
        return is_proposer and is_sane and (isinstance(message, Prepare) or message.view.may_follow(view))

    def _count(self, sender: Machine, message: Promise | Accepted | Rejected, now: float) -> Sequence[MemberEffect]:
        change = self._change
        if change is None or message.ballot != change.ballot or sender not in self._members:
            return ()
        self._note_answer(sender, now)
        match message:
            case Promise(accepted=accepted):
                change.promises[sender] = accepted
                return self._propose_if_promised(now)
            case Accepted():
                change.accepted[sender] = None
                return self._install_if_accepted(now)
            case Rejected(promised=promised):
                self._note_refusal(sender, promised, change, now)
        return ()

    def _note_refusal(self, sender: Machine, promised: Ballot, change: ViewChange, now: float) -> None:
        """A few that hear the primary do not keep it in place; the primary itself does."""
        assert self.register is not None
        view = self.register.view
        if promised.round <= self._round + ROUNDS_AHEAD_MAX:
            self._round = max(self._round, promised.round)
        change.refused[sender] = None
        is_hopeless = len(change.refused) > len(view.members) - view.majority
        if promised > change.ballot or sender == view.primary or is_hopeless:
            self._give_up(now)

    def _give_up(self, now: float) -> None:
        """Try again later; machines do so at different times."""
        assert self.register is not None
        members = self.register.view.members
        self._change = None
        self.timing.back_off(now, 1 + members.index(self.machine) if self.machine in members else 1)

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
        asked = [ToMember(each, message) for each in self._members]
        return [SaveRegister(self.register), *asked, *self._install_if_accepted(now)]

    def _install_if_accepted(self, now: float) -> Sequence[MemberEffect]:
        register, change = self.register, self._change
        assert register is not None
        assert change is not None
        if change.proposed is None or len(change.accepted) < register.view.majority:
            return ()
        return self._install(change.proposed, now, is_told=True)

    def _install(self, view: View, now: float, *, is_told: bool = False) -> Sequence[MemberEffect]:
        """`is_told`: to the members, old and new. A primary that stays one tells whoever gets records from it, too."""
        old = self.register.view if self.register is not None else None
        is_in_row = old is not None and old.primary == view.primary and old.number + 1 == view.number
        if not is_in_row:
            self._primary_since = view.number
        self.register = Register(view)
        self._change, self._round = None, 0
        self._answers.clear()
        self.timing.view_installed(now)
        others = dict.fromkeys([*view.members, *(old.members if old is not None else ())])
        if self.leadership is not None and self.is_primary:
            others |= dict.fromkeys(self.leadership.following)
            is_told = True
        others.pop(self.machine, None)
        told = [ToMember(each, ViewInstalled(self.broker, view.number, view)) for each in others] if is_told else []
        return [SaveRegister(self.register), *told, *self._take_role(view, old)]

    def _take_role(self, view: View, old: View | None) -> Iterator[MemberEffect]:
        was_primary = old is not None and old.primary == self.machine  # perhaps one that has not begun to lead
        if view.primary == self.machine:
            if not was_primary:
                yield Promote(view)
            elif self.leadership is not None:
                self.leadership.view_installed()
                yield from self._confirm()
            return
        if was_primary:
            self.leadership = None
            yield Depose(view)
        was_member = old is not None and self.machine in old.members
        if was_member and self.machine not in view.members and not view.is_decreed:  # else it may be being filled
            self.position = None
            yield Discard()
        yield ToMember(view.primary, self._here())
