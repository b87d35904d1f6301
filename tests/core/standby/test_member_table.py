"""States × messages: every role gets every message, in an older, the same and a newer view, from everyone.

Written from docs/protocols/standby.md, "State, message, action", and not from the code.
"""

import itertools

import msgspec
import pytest

from pleach.core.standby.effects import CatchUp, Depose, Discard, Promote, SaveRegister, StoreRecord, ToMember
from pleach.core.standby.member import StandbyConfig, StandbyMember
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
    TakeOver,
    Unheard,
    ViewInstalled,
)
from pleach.core.standby.positions import Position
from pleach.core.standby.views import AcceptedView, Ballot, Register, View

AT, NEXT = Position(1, 4), Position(1, 5)
VIEW = View("b", 5, ("p", "s", "t"), ("v", "w"), dict.fromkeys("pstvw", ""))
OLDER, NEWER = 4, 6
SECOND = VIEW.promoting("s")
BALLOT = Ballot(1, "s")
ROLES = {"primary": "p", "standby": "s", "third copy": "t", "witness": "w", "no member": "x"}


def member(machine, *, view=VIEW, position=AT, register=True):
    known = Register(view) if register else None
    made = StandbyMember(machine, "b", StandbyConfig(1.0, 3), register=known, position=position)
    if register and machine == view.primary:
        made.lead(AT, 7)
    return made


def messages(number, view=SECOND):
    return [
        Alive("b", number),
        Here("b", number, AT),
        Append("b", number, AT, NEXT, b"record"),
        Appended("b", number, NEXT),
        Astray("b", number, AT),
        Ask("b", number),
        Unheard("b", number, True),
        Prepare("b", number, BALLOT),
        Promise("b", number, BALLOT, None),
        Propose("b", number, BALLOT, view),
        Accepted("b", number, BALLOT),
        Rejected("b", number, BALLOT, Ballot(9, "t")),
        TakeOver("b", number),
        Dissolved("b", number),
    ]


def kinds(effects):
    return [type(each.message if isinstance(each, ToMember) else each) for each in effects]


def disk(made):
    return made.register, made.position


def let_time_pass(made, seconds=3.0):
    """The process runs, and hears nobody."""
    for place in range(int(seconds * 5)):
        made.tick(place / 5)
    return seconds


def test_no_message_can_be_changed():
    """The same one goes to several members, and to each of them again."""
    for message in [*messages(VIEW.number), ViewInstalled("b", VIEW.number, VIEW)]:
        with pytest.raises(AttributeError, match="immutable"):
            message.number = NEWER


# Views -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sender", ["p", "s", "w"])
@pytest.mark.parametrize("role", ROLES)
def test_what_is_of_an_older_view_is_answered_with_the_newer_one_and_changes_nothing(role, sender):
    for message in messages(OLDER):
        made = member(ROLES[role])
        if sender == made.machine:
            continue
        before = disk(made)
        assert kinds(made.handle(sender, message, 0.0)) == [ViewInstalled], message
        assert disk(made) == before


@pytest.mark.parametrize("role", ROLES)
def test_what_is_of_a_newer_view_is_answered_with_a_question_and_changes_nothing(role):
    for message in messages(NEWER):
        made = member(ROLES[role])
        before = disk(made)
        assert kinds(made.handle("v", message, 0.0)) == [Ask], message
        assert disk(made) == before


def test_who_knows_no_view_answers_a_primary_and_asks_all_others():
    for message in messages(VIEW.number):
        fresh = member("x", register=False, position=None)
        assert kinds(fresh.handle("p", message, 0.0)) == [Here if isinstance(message, Alive) else Ask], message
        assert disk(fresh) == (None, None)


def test_a_stranger_without_a_view_is_told_none():
    for message in messages(0):
        for machine in ROLES.values():
            made = member(machine)
            before = disk(made)
            assert not made.handle("y", message, 0.0), message
            assert disk(made) == before


def test_a_member_that_lost_its_register_is_told_the_view_and_has_no_vote_before():
    lost = member("w", register=False, position=None)
    assert kinds(lost.handle("s", Prepare("b", 5, BALLOT), 0.0)) == [Ask]
    p = member("p")
    assert p.handle("w", Ask("b", 0), 0.0) == [ToMember("w", ViewInstalled("b", 5, VIEW))]


@pytest.mark.parametrize(
    ("machine", "effects"),
    [
        ("p", [SaveRegister, Depose, Here]),
        ("s", [SaveRegister, Promote]),
        ("t", [SaveRegister, Here]),
        ("w", [SaveRegister, Here]),
        ("x", [SaveRegister, Here]),
    ],
)
def test_a_newer_view_gives_everyone_its_role(machine, effects):
    made = member(machine)
    assert kinds(made.handle("v", ViewInstalled("b", 6, SECOND), 0.0)) == effects
    assert made.register == Register(SECOND)
    assert made.leadership is None


def test_who_is_no_member_any_more_discards_after_its_register_is_saved():
    without = View("b", 6, ("p", "s"), ("v",), dict.fromkeys("psv", ""))
    t = member("t")
    assert kinds(t.handle("p", ViewInstalled("b", 6, without), 0.0)) == [SaveRegister, Discard, Here]
    assert t.position is None


def test_a_primary_that_stays_tells_everyone_before_it_confirms_in_the_new_view():
    p = member("p")
    p.wrote(Position(7, 5))
    for each in "st":
        p.handle(each, Here("b", 5, AT), 0.0)
    later = msgspec.structs.replace(VIEW, number=6, witnesses=("v", "y"), addresses=dict.fromkeys("pstvy", ""))
    told = p.handle("s", ViewInstalled("b", 6, later), 0.0)
    assert kinds(told) == [SaveRegister, *[ViewInstalled] * 5]
    assert not p.handle("s", Appended("b", 5, Position(7, 5)), 0.0)[1:], "acknowledged in the old view"


# Votes (Paxos made simple, 2.2) ----------------------------------------------------------------------------------


def test_on_prepare_with_a_higher_ballot_it_promises_and_says_what_it_accepted():
    w = member("w")
    now = let_time_pass(w)
    assert w.handle("s", Propose("b", 5, Ballot(1, "s"), SECOND), now)[1].message == Accepted("b", 5, Ballot(1, "s"))
    save, promise = w.handle("t", Prepare("b", 5, Ballot(2, "t")), now)
    assert save.register.promised == Ballot(2, "t")
    assert promise.message.accepted.view == SECOND


@pytest.mark.parametrize("kind", ["prepare", "propose"])
def test_on_a_lower_ballot_it_rejects_and_saves_nothing(kind):
    w = member("w")
    now = let_time_pass(w)
    w.handle("t", Prepare("b", 5, Ballot(3, "t")), now)
    before = disk(w)
    low = Prepare("b", 5, Ballot(2, "s")) if kind == "prepare" else Propose("b", 5, Ballot(2, "s"), SECOND)
    assert w.handle("s", low, now) == [ToMember("s", Rejected("b", 5, Ballot(2, "s"), Ballot(3, "t")))]
    assert disk(w) == before


def test_a_promise_is_saved_before_it_is_sent():
    w = member("w")
    now = let_time_pass(w)
    assert kinds(w.handle("s", Prepare("b", 5, BALLOT), now)) == [SaveRegister, Promise]
    assert kinds(member("w").handle("p", Prepare("b", 5, Ballot(1, "p")), 0.0)) == [SaveRegister, Promise]
    assert kinds(w.handle("s", Propose("b", 5, BALLOT, SECOND), now)) == [SaveRegister, Accepted]


def test_who_hears_the_primary_promises_to_nobody_else_but_whom_it_invited():
    for machine in "ptvw":
        made = member(machine)
        assert kinds(made.handle("s", Prepare("b", 5, BALLOT), 0.1)) == [Rejected], machine
        assert made.register.is_open
        assert kinds(made.handle("s", Prepare("b", 5, BALLOT, is_invited=True), 0.1)) == [SaveRegister, Promise]


def test_a_proposer_takes_up_what_was_accepted_under_the_highest_ballot():
    s, third = member("s"), VIEW.promoting("t")
    prepare = next(each.message for each in s.seek_promotion(0.0) if isinstance(each, ToMember))
    s.handle("v", Promise("b", 5, prepare.ballot, AcceptedView(Ballot(0, "p"), SECOND)), 0.0)
    effects = s.handle("w", Promise("b", 5, prepare.ballot, AcceptedView(Ballot(0, "t"), third)), 0.0)
    assert [each.message.view.primary for each in effects if isinstance(each, ToMember)] == ["t"] * 4


def test_a_view_is_installed_by_a_majority_of_members_and_not_by_one_that_votes_twice():
    s = member("s")
    ballot = next(each.message.ballot for each in s.seek_promotion(0.0) if isinstance(each, ToMember))
    for _ in range(3):
        assert not s.handle("w", Promise("b", 5, ballot, None), 0.0)
        assert not s.handle("x", Promise("b", 5, ballot, None), 0.0), "no member"
    assert Propose in kinds(s.handle("v", Promise("b", 5, ballot, None), 0.0))
    for _ in range(3):
        assert not s.handle("w", Accepted("b", 5, ballot), 0.0)
        assert not s.handle("x", Accepted("b", 5, ballot), 0.0)
        assert not s.handle("t", Accepted("b", 5, Ballot(9, "t")), 0.0), "another ballot"
    assert Promote in kinds(s.handle("t", Accepted("b", 5, ballot), 0.0))


def test_a_few_that_hear_the_primary_do_not_keep_it_in_place():
    s = member("s")
    ballot = next(each.message.ballot for each in s.seek_promotion(0.0) if isinstance(each, ToMember))
    s.handle("v", Rejected("b", 5, ballot, Ballot(0, "")), 0.0)
    s.handle("w", Promise("b", 5, ballot, None), 0.0)
    assert Propose in kinds(s.handle("t", Promise("b", 5, ballot, None), 0.0))


@pytest.mark.parametrize("who", ["p", "vwt", "w"])
def test_a_proposer_gives_up_for_the_primary_for_too_many_and_for_a_higher_ballot(who):
    s = member("s")
    ballot = next(each.message.ballot for each in s.seek_promotion(0.0) if isinstance(each, ToMember))
    for each in who:
        s.handle(each, Rejected("b", 5, ballot, Ballot(8, "t") if who == "w" else Ballot(0, "")), 0.0)
    for each in "vwt":
        assert not s.handle(each, Promise("b", 5, ballot, None), 0.0)


# Records ---------------------------------------------------------------------------------------------------------


def test_records_are_taken_of_the_primary_in_its_views_in_a_row():
    record = Append("b", 5, AT, NEXT, b"record")
    for machine in "stvwx":
        made = member(machine)
        assert made.handle("p", record, 0.0) == [StoreRecord(AT, NEXT, b"record")], machine
        assert not made.handle("v", record, 0.0), "of another machine"
    s = member("s")
    s.handle("p", ViewInstalled("b", 6, msgspec.structs.replace(VIEW, number=6)), 0.0)
    assert kinds(s.handle("p", record, 0.0)) == [StoreRecord]
    assert kinds(s.handle("p", Append("b", 4, AT, NEXT, b""), 0.0)) == [ViewInstalled]
    assert not member("p").handle("s", record, 0.0)


def test_fills_are_taken_of_the_primary_in_its_views_in_a_row():
    s = member("s")
    assert s.takes_fill_of("p", 5)
    for machine, number in [("t", 5), ("p", 4), ("p", 6), ("x", 5)]:
        assert not s.takes_fill_of(machine, number)
    s.handle("p", ViewInstalled("b", 6, msgspec.structs.replace(VIEW, number=6)), 0.0)
    assert s.takes_fill_of("p", 5)
    s.handle("p", ViewInstalled("b", 8, msgspec.structs.replace(VIEW, number=8)), 0.0)
    assert not s.takes_fill_of("p", 6), "another one may have been primary in between"
    assert not member("p").takes_fill_of("p", 5)
    assert not member("x", register=False).takes_fill_of("p", 5)
    restarted = StandbyMember("s", "b", StandbyConfig(1.0), register=s.register, position=AT)
    assert not restarted.takes_fill_of("p", 6)


def test_what_is_stored_is_acknowledged_in_the_newest_view_also_after_a_promise():
    t = member("t")
    now = let_time_pass(t)
    t.handle("s", Prepare("b", 5, BALLOT), now)
    assert t.stored(NEXT) == [ToMember("p", Appended("b", 5, NEXT))]
    t.handle("s", ViewInstalled("b", 6, SECOND), now)
    assert t.stored(NEXT) == [ToMember("s", Appended("b", 6, NEXT))]
    assert t.lost_track() == [ToMember("s", Astray("b", 6, NEXT))]
    assert t.lost_track(needs_fill=True) == [ToMember("s", Astray("b", 6, None))]
    assert not member("p").stored(NEXT)
    assert not member("x", register=False).stored(NEXT)


def test_who_is_astray_is_brought_up_once_for_each_place_where_it_is():
    p = member("p")
    assert p.handle("s", Here("b", 5, AT), 0.0)[0] == CatchUp("s", AT)
    assert not p.handle("s", Astray("b", 5, AT), 0.0), "of records that were sent before"
    assert p.handle("s", Astray("b", 5, Position(1, 2)), 0.0) == [CatchUp("s", Position(1, 2))]
    p.lost_touch("s")
    assert p.handle("s", Astray("b", 5, Position(1, 2)), 0.0) == [CatchUp("s", Position(1, 2))]
    assert not p.handle("w", Astray("b", 5, AT), 0.0), "a witness has no copy"


# What no honest machine sends ------------------------------------------------------------------------------------

BAD_VIEWS = {
    "of another broker": View("c", 6, ("s", "p", "t"), ("v", "w")),
    "with a machine twice": View("b", 6, ("s", "p", "s"), ("v", "w")),
    "with a witness that is a copy": View("b", 6, ("s", "p", "t"), ("s", "w")),
    "with a machine without a name": View("b", 6, ("s", ""), ("w",)),
    "of too many": View("b", 6, tuple(map(str, range(10))), tuple(map(str, range(10, 20)))),
    "far ahead": View("b", 2**61, ("s", "p", "t"), ("v", "w")),
    "with addresses of others": View("b", 6, ("s", "p", "t"), ("v", "w"), {"z": ""}),
}


@pytest.mark.parametrize("name", BAD_VIEWS)
@pytest.mark.parametrize("machine", ROLES.values())
def test_a_malformed_view_deposes_and_promotes_nobody(machine, name):
    view, made = BAD_VIEWS[name], member(machine)
    before = disk(made)
    for sender in "pstvw":
        if sender != machine:
            assert not made.handle(sender, ViewInstalled("b", view.number, view), 0.0)
    assert disk(made) == before


@pytest.mark.parametrize("machine", ROLES.values())
def test_a_stranger_deposes_and_promotes_nobody(machine):
    made = member(machine)
    before = disk(made)
    assert not made.handle("y", ViewInstalled("b", 6, SECOND), 0.0)
    assert not made.handle("v", ViewInstalled("b", 7, SECOND), 0.0), "another number than its view has"
    for message in messages(VIEW.number):
        answers = made.handle("y", message, 0.0)
        assert kinds(answers) in ([], [Unheard]), message
    assert disk(made) == before


def test_a_machine_without_a_view_learns_only_what_concerns_it():
    fresh = member("x", register=False, position=None)
    assert not fresh.handle("s", ViewInstalled("b", 5, VIEW), 0.0), "it is no member, and s does not fill it"
    assert not fresh.handle("y", ViewInstalled("b", 5, VIEW), 0.0)
    assert kinds(fresh.handle("p", ViewInstalled("b", 5, VIEW), 0.0)) == [SaveRegister, Here]
    w = member("w", register=False, position=None)
    assert not w.handle("y", ViewInstalled("b", 5, VIEW), 0.0)
    assert kinds(w.handle("s", ViewInstalled("b", 5, VIEW), 0.0)) == [SaveRegister, Here]


@pytest.mark.parametrize("machine", "pstw")
def test_messages_of_another_broker_and_of_itself_are_ignored(machine):
    for message, number in itertools.product(messages(0), (OLDER, VIEW.number, NEWER)):
        made = member(machine)
        assert not made.handle("v", msgspec.structs.replace(message, broker="c", number=number), 0.0)
        assert not made.handle(machine, msgspec.structs.replace(message, number=number), 0.0)


def test_witnesses_and_strangers_propose_nothing_and_nobody_proposes_for_others():
    w = member("w")
    now = let_time_pass(w)
    before = disk(w)
    for sender, ballot in [("v", Ballot(1, "v")), ("x", Ballot(1, "x")), ("s", Ballot(1, "t"))]:
        assert not w.handle(sender, Prepare("b", 5, ballot), now)
        assert not w.handle(sender, Propose("b", 5, ballot, SECOND), now)
    for absurd in (Ballot(2**60, "s"), Ballot(0, "s")):
        assert not w.handle("s", Prepare("b", 5, absurd), now)
    assert disk(w) == before


@pytest.mark.parametrize(
    "view",
    [
        *BAD_VIEWS.values(),
        msgspec.structs.replace(SECOND, number=5),
        msgspec.structs.replace(SECOND, number=7),
        msgspec.structs.replace(SECOND, copies=("w", "p", "t"), witnesses=("v", "s")),
        msgspec.structs.replace(SECOND, copies=("s", "x", "t"), addresses={}),
        msgspec.structs.replace(SECOND, witnesses=("v", "x"), addresses={}),
        msgspec.structs.replace(SECOND, copies=("x", "p"), addresses={}),
    ],
)
def test_a_view_that_may_not_follow_is_accepted_by_nobody(view):
    """Rule 3: a promotion changes nothing but the primary, and only a primary that stays changes members."""
    for machine in "ptvw":
        made = member(machine)
        before = disk(made)
        assert not made.handle("s", Propose("b", 5, BALLOT, view), 0.0)
        assert disk(made) == before


def test_only_the_primary_hands_over_and_only_to_a_copy_that_has_data():
    takeover = TakeOver("b", 5)
    assert Prepare in kinds(member("s").handle("p", takeover, 0.0))
    assert not member("s").handle("t", takeover, 0.0)
    assert not member("w").handle("p", takeover, 0.0)
    assert not member("s", position=None).handle("p", takeover, 0.0)
    assert not member("p").step_down("w")
    assert not member("s").step_down("t")
    assert kinds(member("p").step_down("t")) == [TakeOver]


def test_only_the_primary_dissolves():
    gone = Dissolved("b", 5)
    for machine in "stvw":
        made = member(machine)
        assert not made.handle("t" if machine != "t" else "s", gone, 0.0)
        assert made.handle("p", gone, 0.0) == [Discard()]
        assert disk(made) == (None, None)


def test_what_a_stranger_says_of_itself_is_not_kept():
    p = member("p")
    for place in range(1_000):
        for message in (Here("b", 5, AT), Here("b", 0, AT), Appended("b", 5, NEXT), Astray("b", 5, None)):
            p.handle(f"stranger {place}", message, 0.0)
    assert not p.heard
    assert not p.leadership.acknowledged
    assert not p.leadership.following
