"""The journal of a link, and how the journals around a dead broker become one history."""

from itertools import chain

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.messages import Got, Sent
from pleach.core.overlay.healing.causal_merge import Account, merged
from pleach.core.overlay.healing.journal import Journal, covers, marks_of
from pleach.errors import HealingError
from support.overlay.star import Star
from support.thorough import FACTOR

STEPS = 60


def event(name, sequence=1):
    return Event(EventId(name, 0, sequence), {})


def history(accounts):
    return [str(each.id) for _, each in merged(accounts)]


class TestJournal:
    def test_what_comes_while_nothing_is_unconfirmed_is_marked(self):
        journal = Journal()
        journal.got(event("p", 1).id)
        journal.got(event("p", 3).id)
        assert journal.marks == [EventId("p", 0, 3)]
        assert journal.entries == []

    def test_what_comes_meanwhile_keeps_its_place(self):
        journal = Journal()
        journal.sent(event("a"))
        journal.got(event("p").id)
        journal.sent(event("b"))
        assert journal.entries == [Sent(event("a")), Got(event("p").id), Sent(event("b"))]

    def test_a_confirmation_turns_the_notes_behind_it_into_marks(self):
        journal = Journal()
        journal.sent(event("a"))
        journal.got(event("p").id)
        journal.sent(event("b"))
        journal.confirmed(1)
        assert journal.entries == [Sent(event("b"))]
        assert journal.marks == [event("p").id]

    def test_confirmations_are_cumulative_and_may_come_twice(self):
        journal = Journal()
        for name in "abc":
            journal.sent(event(name))
        journal.confirmed(2)
        journal.confirmed(2)
        journal.confirmed(1)
        assert journal.entries == [Sent(event("c"))]

    def test_after_it_is_handed_over_the_link_begins_anew_but_for_what_came(self):
        journal = Journal()
        journal.sent(event("a"))
        journal.got(event("p").id)
        assert journal.hand_over() == ([], [Sent(event("a")), Got(event("p").id)])
        assert journal.entries == []
        assert journal.marks == [event("p").id]
        journal.sent(event("b"))
        journal.confirmed(1)
        assert journal.entries == []

    def test_a_later_incarnation_is_above_every_sequence_of_an_earlier_one(self):
        marks = marks_of([EventId("p", 0, 9), EventId("p", 1, 1)])
        assert covers(marks, EventId("p", 0, 10))
        assert not covers(marks, EventId("p", 1, 2))


class TestMerge:
    def test_an_answer_comes_after_what_it_answers(self):
        """b got a1 and then sent b1: though `b` could be read first, a1 is still in a's journal."""
        accounts = {
            "z": Account([], [Sent(event("a"))]),
            "b": Account([], [Got(event("a").id), Sent(event("b"))]),
        }
        assert history(accounts) == ["a/0/1", "b/0/1"]

    def test_what_is_marked_comes_before_everything(self):
        accounts = {"z": Account([], [Sent(event("a"))]), "b": Account([event("a").id], [Sent(event("b"))])}
        assert history(accounts) == ["a/0/1", "b/0/1"]

    def test_what_was_got_and_is_in_no_journal_is_waited_for_by_nobody(self):
        assert history({"b": Account([], [Got(event("x").id), Sent(event("b"))])}) == ["b/0/1"]

    def test_events_of_a_publisher_that_moved_stay_in_order(self):
        accounts = {"b": Account([], [Sent(event("p", 2))]), "z": Account([], [Sent(event("p", 1))])}
        assert history(accounts) == ["p/0/1", "p/0/2"]

    def test_journals_that_no_history_has_led_to_are_refused(self):
        accounts = {
            "a": Account([], [Got(event("b").id), Sent(event("a"))]),
            "b": Account([], [Got(event("a").id), Sent(event("b"))]),
        }
        with pytest.raises(HealingError, match="contradict each other"):
            merged(accounts)

    def test_the_names_of_witnesses_decide_where_nothing_else_does(self):
        accounts = {name: Account([], [Sent(event(name))]) for name in "cab"}
        assert history(accounts) == ["a/0/1", "b/0/1", "c/0/1"]


def healed(seed, merge):
    star = Star(seed)
    star.live(STEPS)
    star.die()
    star.heal(merge)
    return star


def test_nothing_is_lost_doubled_or_out_of_order_around_a_dead_broker():
    for seed in range(2_000 * FACTOR):
        assert healed(seed, merged).flaws() == [], seed


def test_the_stars_lose_something_with_the_broker_and_something_is_sent_again():
    """Else the test above would show nothing."""
    stars = [healed(seed, merged) for seed in range(100)]
    assert sum(len(star.died) for star in stars) > 100
    assert sum(len(star.held) for star in stars) > 100


def one_after_another(accounts):
    """A mutant: journal by journal, whatever had been got before."""
    return [(name, e.event) for name, account in accounts.items() for e in account.entries if isinstance(e, Sent)]


def without_marks(accounts):
    """A mutant: what was got before the first entry is not waited for."""
    return merged({name: Account([], account.entries) for name, account in accounts.items()})


def without_notes(accounts):
    """A mutant: what was got in between is not waited for."""
    return merged(
        {
            name: Account(account.marks, [entry for entry in account.entries if isinstance(entry, Sent)])
            for name, account in accounts.items()
        }
    )


@pytest.mark.parametrize("mutant", [one_after_another, without_marks, without_notes])
def test_a_merge_that_does_not_wait_breaks_causal_order(mutant):
    flaws = chain.from_iterable(healed(seed, mutant).flaws() for seed in range(400))
    assert {flaw.partition(":")[0] for flaw in flaws} == {"causal"}
