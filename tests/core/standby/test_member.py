"""One member, step by step: what it answers, what it proposes, and when it gives way."""

import pytest

from pleach.core.standby.composition import Candidate
from pleach.core.standby.effects import Confirm, Depose, Discard, Promote, SaveRegister, ToMember
from pleach.core.standby.leadership import NOT_CAUGHT_UP
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import Accepted, Appended, Here, Prepare, Promise, ViewInstalled
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Ballot, Register, View

AT = Position(1, 1)
VIEW = View("b", 1, ("p", "s"), ("w",))
LATER = 100.0  # everyone is silent by then


def member(machine, view=VIEW, position=AT, **known):
    return StandbyMember(machine, "b", StandbyConfig(after=1.0), register=Register(view), position=position, **known)


def sent(effects, kind):
    return [effect for effect in effects if isinstance(effect, ToMember) and isinstance(effect.message, kind)]


def test_a_proposer_that_promises_a_higher_ballot_proposes_nothing_more():
    """Its own promise is among those that it counts, and it has taken that one back."""
    s = member("s")
    mine = sent(s.seek_promotion(LATER), Prepare)[0].message.ballot
    higher = Ballot(mine.round + 1, "p")
    assert sent(s.handle("p", Prepare("b", 1, higher), LATER), Promise)
    assert not s.handle("w", Promise("b", 1, mine, None), LATER)
    assert s.register.promised == higher
    assert not s.handle("w", Accepted("b", 1, mine), LATER)


def test_a_broker_that_is_being_started_is_deposed_too():
    """Else the driver would go on, and lead in a view that is not its own."""
    s = member("s")
    second, third = VIEW.promoting("s"), VIEW.promoting("s").promoting("p")
    assert Promote(second) in s.handle("w", ViewInstalled("b", 2, second), LATER)
    effects = s.handle("w", ViewInstalled("b", 3, third), LATER)
    assert isinstance(effects[0], SaveRegister)
    assert Depose(third) in effects
    with pytest.raises(AssertionError, match="only a primary leads"):
        s.lead(AT, 2)


def test_a_store_that_draws_a_new_run_leaves_those_behind_that_have_what_it_could_not_write():
    """A record was handed out, the disk was full, and the next commit has the same number and another run."""
    p = member("p")
    p.lead(AT, run=7)
    p.wrote(Position(7, 2))
    p.handle("s", Appended("b", 1, Position(7, 3)), 0.0)
    assert p.leadership.confirmed == 2
    assert not p.wrote(Position(9, 3))
    assert p.leadership.reached("s") == NOT_CAUGHT_UP
    assert Confirm(3) in p.handle("s", Appended("b", 1, Position(9, 3)), 0.0)


def test_who_is_filled_to_become_a_member_keeps_what_it_has_when_it_hears_of_another_view():
    """It was a member once, and knows an older view."""
    former = member("x", View("b", 3, ("p", "s"), ("w",)))
    effects = former.handle("p", ViewInstalled("b", 4, View("b", 4, ("p", "s"), ("v",))), 0.0)
    assert isinstance(effects[0], SaveRegister)
    assert Discard() not in effects
    assert former.position == AT
    w = member("w")
    assert Discard() in w.handle("p", ViewInstalled("b", 2, View("b", 2, ("p", "s"), ("v",))), 0.0)


def test_a_machine_that_never_answered_gets_no_vote():
    """Brokers have told each other of it, and it was destroyed since: a view with it could not be followed by any."""
    p = member("p", View("b", 1, ("p", "s"), ("w",), dict.fromkeys("psw", "")))
    p.lead(AT, run=7)
    p.candidates = (Candidate("s", ""), Candidate("x", ""))  # the witness is none any more
    p.handle("s", Here("b", 1, AT), 0.1)
    p.handle("w", Here("b", 1, None), 0.1)
    assert not sent(p.tick(0.2), Prepare)
    p.handle("x", Here("b", 0, None), 0.3)
    assert sent(p.tick(0.4), Prepare)


def test_who_does_not_lead_waits_for_nobody():
    """A primary that is being started has confirmed nothing yet; copies and witnesses never do."""
    assert [member(each).waits_for for each in "psw"] == [[], [], []]
    p = member("p")
    p.lead(AT, run=7)
    assert p.waits_for == ["s"]
    p.handle("s", Appended("b", 1, AT), 0.1)
    assert p.waits_for == []
