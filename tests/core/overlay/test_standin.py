"""The stand-in's machine, step by step: a–x–b, where x is dead, and its client c comes back."""

from functools import partial

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Observe, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    OPERATOR,
    Attach,
    Bereaved,
    Deliver,
    Forward,
    Got,
    Install,
    Layer,
    Pooled,
    Publish,
    Published,
    Returning,
    Sent,
    Served,
    Settle,
    StandFor,
    Subscribe,
    TableEntries,
)
from pleach.core.messages import Testimony as Evidence  # pytest takes what begins with Test for tests
from pleach.core.overlay.healing import stand_in
from pleach.core.overlay.healing.stand_in import GRACE, StandIn, StandInPhase
from pleach.core.overlay.healing.witness import FREE, FREE_LOOKS_MAX, FREE_SECONDS
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError

TOPIC = parse_filter("topic = 't'")
WANTS_TOPIC = [TableEntries(Layer.SUBSCRIPTIONS, [("", TOPIC)])]


def broker(name="x", ordering="causal", neighbours=()):
    machines = [partial(StandIn, ordering=ordering, grace=5.0)]
    return Broker(name, RoutingConfig(), neighbours=neighbours, machines=machines)


def give(machine, sender, message):
    return machine.handle(sender, message, now=0.0)


def sends(effects, to=None, kind=None):
    found = [e for e in effects if isinstance(e, Send) and to in (None, e.to)]
    return [e.message for e in found if kind is None or isinstance(e.message, kind)]


def event(sequence, publisher="p"):
    return Event(EventId(publisher, 0, sequence), {"topic": "t"})


def evidence(witness, *, told=(), has=(), marks=(), entries=(), heard=(), about="x"):
    return Evidence(witness, about, list(told), list(has), list(marks), list(entries), list(heard))


def phase(machine):
    return machine.machine(StandIn).phase


def gathering(ordering="causal", neighbours=("a", "b")):
    machine = broker(ordering=ordering)
    give(machine, OPERATOR, StandFor([*neighbours]))
    return machine


def serving(a=None, b=None, ordering="causal"):
    machine = gathering(ordering)
    give(machine, "a", a or evidence("a"))
    effects = give(machine, "b", b or evidence("b", told=WANTS_TOPIC))
    return machine, effects


def returning(marks=(), *, own_events=True, again=()):
    return Returning(own_events, list(marks), {"s": TOPIC}, {}, again=list(again))


class TestGathering:
    def test_it_waits_for_every_neighbour(self):
        machine = gathering()
        assert give(machine, "a", evidence("a")) == []
        assert phase(machine) is StandInPhase.GATHERING
        give(machine, "b", evidence("b"))
        assert phase(machine) is StandInPhase.SERVING

    def test_without_neighbours_it_serves_at_once(self):
        assert phase(gathering(neighbours=())) is StandInPhase.SERVING

    @pytest.mark.parametrize("message", [Forward(event(1)), Install(Layer.SUBSCRIPTIONS, 1, "", TOPIC), Attach()])
    def test_everything_else_waits(self, message):
        machine = gathering()
        assert not give(machine, "c" if message == Attach() else "a", message)
        assert machine.seam.held_count == 1

    def test_what_waited_goes_on_after_what_the_dead_one_had_not_confirmed(self):
        machine = gathering()
        give(machine, "a", evidence("a", entries=[Sent(event(1))]))
        give(machine, "a", Forward(event(2)))
        effects = give(machine, "b", evidence("b", told=WANTS_TOPIC))
        assert [m.event.id.sequence for m in sends(effects, "b", Forward)] == [1, 2]

    def test_a_broker_that_gathers_nothing_refuses_testimonies(self):
        with pytest.raises(ProtocolError, match="no stand-in gathers here"):
            give(broker(neighbours=["a"]), "a", evidence("a"))

    @pytest.mark.parametrize("heard", [(), ("a",)])
    def test_it_survives_a_restart(self, heard):
        machine = gathering()
        for witness in heard:
            give(machine, witness, evidence(witness, entries=[Sent(event(1))]))
        again = broker()
        again.restore(machine.capture())
        for witness in sorted({"a", "b"} - {*heard}):
            mine = evidence(witness, told=WANTS_TOPIC if witness == "b" else ())
            assert give(again, witness, mine) == give(machine, witness, mine)
        assert again.capture() == machine.capture()


class TestMerging:
    def test_nobody_gets_what_it_has(self):
        entries = [Sent(event(1)), Sent(event(2))]
        _, effects = serving(evidence("a", entries=entries), evidence("b", told=WANTS_TOPIC, marks=[event(1).id]))
        assert [m.event.id.sequence for m in sends(effects, "b", Forward)] == [2]

    def test_nobody_gets_what_it_has_got_meanwhile(self):
        b = evidence("b", told=WANTS_TOPIC, entries=[Sent(event(1, "q")), Got(event(1).id)])
        _, effects = serving(evidence("a", entries=[Sent(event(1))]), b)
        assert sends(effects, "b", Forward) == []

    def test_nobody_gets_what_it_has_heard_of(self):
        """The dead broker had found that b does not want event 1, and told b of it beside something else."""
        entries = [Sent(event(1)), Sent(event(2))]
        _, effects = serving(evidence("a", entries=entries), evidence("b", told=WANTS_TOPIC, heard=[event(1).id]))
        assert [m.event.id.sequence for m in sends(effects, "b", Forward)] == [2]

    def test_neighbours_are_told_the_difference_and_asked_to_confirm(self):
        _, effects = serving()
        assert [m.filter for m in sends(effects, "a", Install)] == [TOPIC]
        assert len(sends(effects, "a", Settle)) == len(Layer)
        _, effects = serving(evidence("a", has=WANTS_TOPIC))
        assert sends(effects, "a", Install) == []

    def test_wishes_of_absent_clients_stay_until_grace_is_over(self):
        machine, effects = serving(evidence("a", has=WANTS_TOPIC), evidence("b", has=WANTS_TOPIC))
        assert not sends(effects, kind=Install)
        ended = machine.handle_timer(GRACE, now=5.0)
        assert {type(m).__name__ for m in sends(ended)} == {"Withdraw"}
        assert phase(machine) is StandInPhase.IDLE


class TestNeighbours:
    """Two that are dead, y and x: a–x–y–b."""

    def test_they_pool_what_they_have_and_merge_alike(self):
        x, y = gathering(neighbours=("a", "y")), broker("y")
        give(y, OPERATOR, StandFor(["x", "b"]))
        give(x, "a", evidence("a", entries=[Sent(event(1))]))
        (pooled,) = sends(give(y, OPERATOR, Bereaved("x", [], [])), "x", Pooled)
        (answer,) = sends(give(x, "y", pooled), "y", Pooled)
        give(y, "x", answer)
        effects = give(y, "b", evidence("b", told=WANTS_TOPIC, about="y"))
        assert [m.event.id.sequence for m in sends(effects, "b", Forward)] == [1]
        assert sends(effects, "x", Forward) == []
        (rest,) = sends(effects, "x", Pooled)
        assert sends(give(x, "y", rest), kind=Forward) == []
        assert phase(x) is phase(y) is StandInPhase.SERVING
        assert [m.event.id.sequence for m in sends(give(x, "a", Forward(event(2))), "y")] == [2]

    @pytest.mark.parametrize("is_told", [True, False])
    def test_what_one_has_merged_it_owes_the_other_until_that_one_says_it_serves(self, is_told):
        x, y = gathering(neighbours=("a", "y")), broker("y")
        give(y, OPERATOR, StandFor(["x", "b"]))
        give(x, "a", evidence("a", entries=[Sent(event(1))]))
        give(y, "b", evidence("b", told=WANTS_TOPIC, entries=[Sent(event(1, "q"))], about="y"))
        (pooled,) = sends(give(y, OPERATOR, Bereaved("x", [], [])), "x", Pooled)
        effects = give(x, "y", pooled)
        assert phase(x) is StandInPhase.SERVING
        assert len(sends(effects, "y", Served)) == 1
        if is_told:
            give(x, "y", Served())
        (testimony,) = sends(give(x, OPERATOR, Bereaved("y", [], [])), "y", Evidence)
        assert testimony.entries == ([] if is_told else [Sent(event(1))])

    def test_one_that_dies_after_it_has_testified_was_alive(self):
        machine = gathering()
        give(machine, "a", evidence("a", entries=[Sent(event(1))]))
        assert give(machine, OPERATOR, Bereaved("a", [], [])) == []
        effects = give(machine, "b", evidence("b", told=WANTS_TOPIC))
        first, *_ = sends(effects, "a")
        assert isinstance(first, Evidence)
        assert first.marks == [event(1).id]
        assert first.told == WANTS_TOPIC

    def test_and_is_told_what_the_other_side_has_heard_of(self):
        machine = gathering()
        give(machine, "a", evidence("a", entries=[Sent(event(1))], heard=[event(1).id]))
        give(machine, OPERATOR, Bereaved("a", [], []))
        first, *_ = sends(give(machine, "b", evidence("b", heard=[event(3, "q").id])), "a")
        assert first.heard == [event(1).id, event(3, "q").id]


class TestWitness:
    def test_it_says_what_it_told_and_what_it_was_told(self):
        a = broker("a", neighbours=["x"])
        give(a, "c", Attach())
        give(a, "c", Subscribe("s", TOPIC))
        effects = give(a, OPERATOR, Bereaved("x", [event(1).id], [Sent(event(2))]))
        first, *rest = sends(effects, "x")
        assert first == evidence("a", told=WANTS_TOPIC, marks=[event(1).id], entries=[Sent(event(2))])
        assert [type(message) for message in rest] == [Settle]  # c waits for an answer

    def test_while_locked_it_waits_and_not_for_ever(self):
        a = broker("a", neighbours=["x"])
        context, locks = a.machine(StandIn)._context, ["swap"]  # as a protocol would lock it
        context.locked_for = lambda: locks[-1]
        assert give(a, OPERATOR, Bereaved("x", [], [])) == [SetTimer(FREE, FREE_SECONDS)]
        for _ in range(FREE_LOOKS_MAX - 1):
            assert a.handle_timer(FREE, now=0.0) == [SetTimer(FREE, FREE_SECONDS)]
        (last,) = a.handle_timer(FREE, now=0.0)
        assert isinstance(last, Observe)
        assert last.detail == "standin: no testimony of x: locked for swap, which does not end"
        locks.append("")
        assert sends(a.handle_timer(FREE, now=0.0), "x") == [evidence("a")]

    def test_until_the_stand_in_serves_it_can_say_all_again(self):
        """The stand-in may die while it gathers: a second one is told the same, and what followed."""
        a = broker("a", neighbours=["x"])
        entries = [Sent(event(1)), Got(event(1, "q").id)]
        give(a, OPERATOR, Bereaved("x", [], entries))
        (again,) = sends(give(a, OPERATOR, Bereaved("x", [event(1, "q").id], [Sent(event(2))])), "x", Evidence)
        assert again == evidence("a", entries=[*entries, Sent(event(2))])
        give(a, "x", Served())
        (last,) = sends(give(a, OPERATOR, Bereaved("x", [event(1, "q").id], [])), "x", Evidence)
        assert last == evidence("a", marks=[event(1, "q").id])


class TestClients:
    def test_one_that_comes_early_is_served_when_the_stand_in_serves(self):
        machine = gathering()
        assert give(machine, "c", returning()) == []
        give(machine, "a", evidence("a", entries=[Sent(event(1))]))
        effects = give(machine, "b", evidence("b"))
        assert [m.event.id.sequence for m in sends(effects, "c", Deliver)] == [1]

    def test_it_gets_what_was_kept_beyond_its_marks(self):
        machine, _ = serving(evidence("a", entries=[Sent(event(1)), Sent(event(2))]))
        give(machine, "a", Forward(event(3)))
        effects = give(machine, "c", returning([event(1).id]))
        assert [m.event.id.sequence for m in sends(effects, "c", Deliver)] == [2, 3]

    def test_nor_what_it_has_heard_of(self):
        machine, _ = serving(evidence("a", entries=[Sent(event(1)), Sent(event(2))]))
        effects = give(machine, "c", Returning(True, [], {"s": TOPIC}, {}, [event(1).id]))
        assert [m.event.id.sequence for m in sends(effects, "c", Deliver)] == [2]

    def test_its_own_events_only_if_it_wants_them(self):
        machine, _ = serving(evidence("a", entries=[Sent(event(1, "c"))]))
        assert sends(give(machine, "c", returning(own_events=False)), "c", Deliver) == []

    @pytest.mark.parametrize(("ordering", "to_b"), [("causal", 0), ("fifo", 1)])
    def test_what_it_sends_again_and_a_neighbour_has(self, ordering, to_b):
        """a has it, b lacks it: with causal order it is too late for b."""
        machine, _ = serving(evidence("a", marks=[event(1, "c").id]), ordering=ordering)
        give(machine, "c", returning(again=[event(1, "c").id]))
        effects = give(machine, "c", Publish(event(1, "c")))
        assert len(sends(effects, "c", Published)) == 1
        assert len(sends(effects, "b", Forward)) == to_b
        assert sends(effects, "a") == []
        said = [e.event_id for e in machine.handle_timer(GRACE, now=5.0) if isinstance(e, Observe) and e.event_id]
        assert said == ["c/0/1"] * (1 - to_b)

    def test_what_another_client_had_got_is_too_late_as_well(self):
        machine, _ = serving()
        give(machine, "d", returning([event(1, "c").id]))
        give(machine, "c", returning(again=[event(1, "c").id]))
        assert sends(give(machine, "c", Publish(event(1, "c"))), "b") == []

    @pytest.mark.parametrize("is_late", [False, True])
    def test_what_a_client_says_of_others_takes_none_of_their_new_events(self, is_late):
        machine, _ = serving()
        if is_late:
            machine.handle_timer(GRACE, now=5.0)
        for liar in ("d", "e"):
            give(machine, liar, returning([EventId("c", 2**63 - 1, 2**63 - 1)], again=[event(9, "c").id]))
        assert phase(machine) is (StandInPhase.IDLE if is_late else StandInPhase.SERVING)
        give(machine, "c", returning(again=[event(1, "c").id]))
        assert sends(give(machine, "c", Publish(event(1, "c"))), "b") == []  # in doubt: some may have answered it
        assert len(sends(give(machine, "c", Publish(event(2, "c"))), "b", Forward)) == 1

    def test_publishers_that_clients_report_are_bounded(self, monkeypatch):
        monkeypatch.setattr(stand_in, "SEEN_MAX", 2)
        machine, _ = serving()
        give(machine, "d", returning([event(1, publisher).id for publisher in "uvw"]))
        give(machine, "w", returning(again=[event(1, "w").id]))
        assert len(sends(give(machine, "w", Publish(event(1, "w"))), "b", Forward)) == 1

    def test_nobody_returns_to_a_broker_that_stands_in_for_none(self):
        machine = broker()
        with pytest.raises(ProtocolError, match="no client was asked to return here"):
            give(machine, "c", returning())
        assert "c" not in machine.sessions

    def test_one_that_comes_too_late_begins_anew(self):
        machine, _ = serving(evidence("a", entries=[Sent(event(1))]))
        machine.handle_timer(GRACE, now=5.0)
        effects = give(machine, "c", returning())
        assert sends(effects, "c", Deliver) == []
        assert "c" in machine.sessions

    @pytest.mark.parametrize("ordering", ["causal", "fifo"])
    def test_what_one_sends_again_that_comes_too_late_goes_to_nobody_if_anybody_has_it(self, ordering):
        machine, _ = serving(evidence("a", marks=[event(1, "c").id]), ordering=ordering)
        machine.handle_timer(GRACE, now=5.0)
        give(machine, "c", returning(again=[event(1, "c").id]))
        assert [type(m) for m in sends(give(machine, "c", Publish(event(1, "c"))))] == [Published]
        assert len(sends(give(machine, "c", Publish(event(2, "c"))), "b", Forward)) == 1
        machine.handle_timer(GRACE, now=10.0)
        assert phase(machine) is StandInPhase.IDLE

    def test_neighbours_are_no_clients(self):
        machine, _ = serving()
        with pytest.raises(ProtocolError, match="neighbours do not send this"):
            give(machine, "a", returning())

    def test_what_is_kept_survives_a_restart(self):
        machine, _ = serving(evidence("a", entries=[Sent(event(1))]))
        again = broker()
        again.restore(machine.capture())
        assert again.resume(now=0.0) == [SetTimer(GRACE, 5.0)]
        assert sends(give(again, "c", returning())) == sends(give(machine, "c", returning()))
