"""Two tables as one routing layer: whatever clients ask, renew and take back, and whenever rounds begin.

The reference is what clients want now, in two sets: since when each table has been built.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.events.language import parse_filter
from pleach.core.messages import Installed, InTable, Layer, Parity
from pleach.core.messages.routing import Install
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.router import RoutingConfig
from pleach.core.stabilise.twin import ONLY_TREE, TreePosition, TwinRouter, Wiring
from support.thorough import FACTOR

CLIENTS = ("c", "d")
NEIGHBOURS = ("m", "n")
FILTERS = tuple(parse_filter(text) for text in ("x > 0", "x > 5", "x < 3", "y = 1"))
EVENTS = ({"x": 1}, {"x": 4}, {"x": 7}, {"y": 1}, {"z": 1})
ENTRIES = st.tuples(st.sampled_from(CLIENTS), st.sampled_from(FILTERS))
ACTIONS = st.one_of(
    st.tuples(st.just("ask"), ENTRIES),
    st.tuples(st.just("renew"), ENTRIES),
    st.tuples(st.just("end"), ENTRIES),
    st.tuples(st.just("switch"), st.sampled_from(Parity)),
)
POLICIES = st.sampled_from(("flooding", "simple", "identity", "covering", "merging"))


def make(policy, *, cyclic=False):
    branch = TreePosition(None, NEIGHBOURS)
    wiring = (
        Wiring("home", {"home": branch, "far": TreePosition("m", ("m",))})
        if cyclic
        else Wiring("", {ONLY_TREE: branch})
    )
    twin = TwinRouter(wiring, RoutingConfig(policy))
    for neighbour in NEIGHBOURS:
        twin.connect(neighbour)
    return twin


def entry(client, wanted):
    return Entry(f"{client}/{wanted.text}", wanted)


def act(twin, known, action, asked):
    match action, asked:
        case "switch", parity:
            known[parity] = set()
            return twin.switch(parity)
        case "end", (client, wanted):
            for each in known.values():
                each.discard((client, wanted))
            return twin.remove(Layer.SUBSCRIPTIONS, client, entry(client, wanted))
        case _, (client, wanted):
            ticket = Ticket(Layer.SUBSCRIPTIONS, client, wanted.text) if action == "ask" else None
            for parity in Parity if ticket else (twin.building,):
                known[parity].add((client, wanted))
            return twin.add(Layer.SUBSCRIPTIONS, client, entry(client, wanted), ticket)


@given(POLICIES, st.booleans(), st.lists(ACTIONS, max_size=15))
@settings(max_examples=60 * FACTOR, deadline=None)
def test_each_table_has_what_was_said_in_its_round_and_events_go_by_either(policy, cyclic, actions):
    twin, known = make(policy, cyclic=cyclic), {parity: set() for parity in Parity}
    for action, asked in actions:
        act(twin, known, action, asked)
        for (_, parity), table in twin.tables.items():
            for client in CLIENTS:
                expected = sorted(entry(c, wanted) for c, wanted in known[parity] if c == client)
                assert table.received_from(Layer.SUBSCRIPTIONS, client) == expected
    for event in EVENTS:
        wanting = {client for each in known.values() for client, wanted in each if wanted.matches(event)}
        assert [to for to in twin.destinations(event, "m") if to in CLIENTS] == sorted(wanting)


@given(POLICIES, st.lists(ACTIONS, max_size=15), ENTRIES)
@settings(max_examples=60 * FACTOR, deadline=None)
def test_what_is_said_again_in_a_round_is_not_told_again(policy, actions, again):
    twin, known = make(policy), {parity: set() for parity in Parity}
    for action, asked in [*actions, ("renew", again)]:
        act(twin, known, action, asked)
    assert not act(twin, known, "renew", again).sends
    act(twin, known, "end", again)
    assert not act(twin, known, "end", again).sends, "nor is what is taken back twice"


@given(POLICIES, st.lists(ACTIONS, max_size=15))
@settings(max_examples=60 * FACTOR, deadline=None)
def test_what_one_table_says_concerns_the_same_table_alone(policy, actions):
    twin, known = make(policy), {parity: set() for parity in Parity}
    for action, asked in actions:
        other = twin.building.other
        before = twin.tables[ONLY_TREE, other].capture()
        sends = act(twin, known, action, asked).sends
        assert all(isinstance(send.message, InTable) for send in sends)
        if action == "renew":
            assert {send.message.parity for send in sends} <= {twin.building}
            assert twin.tables[ONLY_TREE, other].capture() == before


@given(st.permutations([(n, p) for n in NEIGHBOURS for p in Parity]))
def test_a_request_is_in_effect_when_all_tables_everywhere_have_it(answers):
    twin, known = make("simple"), {parity: set() for parity in Parity}
    asked = act(twin, known, "ask", ("c", FILTERS[0]))
    numbers = {(s.to, s.message.parity): s.message.message.number for s in asked.sends}
    for place, (neighbour, parity) in enumerate(answers, start=1):
        answer = InTable(ONLY_TREE, parity, Installed(Layer.SUBSCRIPTIONS, numbers[neighbour, parity]))
        due = twin.handle_in_table(neighbour, answer).due
        assert bool(due) is (place == len(answers))


def test_a_request_whose_table_is_emptied_is_in_effect_by_the_other_one():
    twin, known = make("simple"), {parity: set() for parity in Parity}
    asked = act(twin, known, "ask", ("c", FILTERS[0]))
    for send in asked.sends:
        if send.message.parity is Parity.EVEN:
            answer = InTable(ONLY_TREE, Parity.EVEN, Installed(Layer.SUBSCRIPTIONS, send.message.message.number))
            assert not twin.handle_in_table(send.to, answer).due
    assert [ticket.requester for ticket in twin.switch(Parity.ODD).due] == ["c"]


def test_on_a_cycle_subscriptions_go_towards_each_root_and_advertisements_down_their_own_tree():
    twin = TwinRouter(
        Wiring("home", {"home": TreePosition(None, NEIGHBOURS), "far": TreePosition("m", ("m",))}),
        RoutingConfig("simple", advertisements=True),
    )
    advertised = twin.add(Layer.ADVERTISEMENTS, "c", entry("c", FILTERS[0]), None)
    assert [(s.to, s.message.tree) for s in advertised.sends] == [("m", "home"), ("n", "home")]
    there = InTable("far", twin.building, Install(Layer.ADVERTISEMENTS, 0, "", FILTERS[0]))
    twin.handle_in_table("m", there)
    wanted = twin.add(Layer.SUBSCRIPTIONS, "d", entry("d", FILTERS[1]), None)
    assert [(s.to, s.message.tree) for s in wanted.sends] == [("m", "far")]
