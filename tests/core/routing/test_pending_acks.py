"""Who waits for which installs: a covered request waits for all that is unanswered, and costs one need for that."""

from random import Random

import pytest

from pleach.core.events.language import parse_filter
from pleach.core.messages import Install, Layer
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Need, Ticket
from pleach.core.routing.policies import POLICIES
from pleach.core.routing.propagation import Propagation
from support.thorough import FACTOR

RUNS = 200 * FACTOR
ANYTHING = parse_filter("n >= 0")


def propagation(*neighbours):
    made = Propagation(Layer.SUBSCRIPTIONS, lambda: POLICIES["covering"].stages(0.0), lambda *_: True)
    for neighbour in neighbours:
        made.connect(neighbour)
    return made


def ask(made, name, wanted):
    """Returns the ticket, and whether it is due at once."""
    ticket = Ticket(Layer.SUBSCRIPTIONS, "c", name)
    sends, is_due = made.add("c", Entry(name, wanted), ticket)
    return ticket, is_due, [(s.to, s.message.number) for s in sends if isinstance(s.message, Install)]


def distinct(n):
    return parse_filter(f"topic = 't{n}'")


def test_a_covered_request_waits_until_all_before_it_are_answered_in_whatever_order():
    made = propagation("x")
    for n in range(3):
        ask(made, f"s{n}", distinct(n))
    covered, is_due, installs = ask(made, "again", distinct(0))
    assert not is_due
    assert not installs
    assert covered not in made.installed("x", 3)
    assert covered not in made.installed("x", 1)
    later, _, _ = ask(made, "later", distinct(7))  # number 4: no business of the covered one
    assert covered in made.installed("x", 2)
    assert made.installed("x", 4) == [later]


def test_a_request_costs_one_need_however_much_is_unanswered():
    """A thousand installs for a neighbour that is away, and a thousand covered requests: not a million numbers."""
    made = propagation("away")
    for n in range(1_000):
        ask(made, f"s{n}", distinct(n))
        ask(made, f"again{n}", distinct(n))
    waits = dict(made.capture().waits)
    assert len(waits) == 2_000
    assert all(len(needs) == 1 for needs in waits.values())
    assert waits[Ticket(Layer.SUBSCRIPTIONS, "c", "again9")] == [Need("away", 10, with_earlier=True)]


def test_what_is_forgotten_leaves_nothing_behind():
    made = propagation("away")
    tickets = [ask(made, f"s{n}", distinct(n % 5))[0] for n in range(50)]
    for ticket in tickets:
        made.forget(ticket)
    assert not made._waits._needs
    assert not made._waits._tickets


def test_with_the_link_gone_nobody_waits_for_it():
    made = propagation("x", "y")
    first, _, _ = ask(made, "s", ANYTHING)
    covered, _, _ = ask(made, "t", parse_filter("n > 5"))
    assert made.disconnect("x") == []
    assert sorted(made.installed("y", 1)) == [first, covered]


class Reference:
    """The same promise, said plainly: each ticket with the set of all numbers that it waits for."""

    def __init__(self):
        self.unanswered = {"x": set(), "y": set()}
        self.waits = {}

    def ask(self, ticket, installs):
        for neighbour, number in installs:
            self.unanswered[neighbour].add(number)
        needs = set(installs)
        for neighbour in self.unanswered.keys() - {neighbour for neighbour, _ in installs}:
            needs |= {(neighbour, number) for number in self.unanswered[neighbour]}
        if needs:
            self.waits[ticket] = needs
        return not needs

    def answer(self, neighbour, number):
        self.unanswered[neighbour].discard(number)
        for needs in self.waits.values():
            needs.discard((neighbour, number))
        due = sorted(ticket for ticket, needs in self.waits.items() if not needs)
        self.waits = {ticket: needs for ticket, needs in self.waits.items() if needs}
        return due


@pytest.mark.parametrize("with_restart", [False, True], ids=["at a stretch", "restored in between"])
def test_due_exactly_when_the_plain_reference_says(with_restart):
    for run in range(RUNS):
        stream, made, reference = Random(f"waits/{run}"), propagation("x", "y"), Reference()
        for n in range(30):
            if stream.random() < 0.5:
                ticket, is_due, installs = ask(made, f"s{n}", distinct(stream.randrange(6)))
                assert reference.ask(ticket, installs) == is_due
            open_ones = [(x, number) for x in "xy" for number in sorted(reference.unanswered[x])]
            if open_ones and stream.random() < 0.5:
                neighbour, number = stream.choice(open_ones)
                assert sorted(made.installed(neighbour, number)) == reference.answer(neighbour, number)
            if with_restart and stream.random() < 0.1:
                state, made = made.capture(), propagation()
                made.restore(state)
