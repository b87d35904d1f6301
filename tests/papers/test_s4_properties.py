"""S4 §3.3–3.5: atomicity, consistency and isolation of a movement, for the client, its notifications and routing.

For notifications they are the oracle's (test_travels.py): exactly once at either copy, whether it moves or not. Here
are the other two, in a network where everything is known beforehand.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import msgspec
import pytest

from pleach.core.events.algebra import covers, overlaps
from pleach.core.events.language import parse_filter
from pleach.core.messages import Layer
from pleach.core.mobility.admission import up_to
from pleach.core.mobility.machine import Mobility
from pleach.core.mobility.movements import SourceMovement
from pleach.core.mobility.phases import SourcePhase
from pleach.core.mobility.source import TIMER
from pleach.core.routing.clients import owner
from pleach.scenario.model import Ordering, Routing
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind
from support.mobility.movement_chain import BROKERS, LINKS, MOVE, MOVER, MOVES_AT, PATH, WANTED, Trip, route
from support.overlay.faults_at_messages import CrashAt, When

POLICIES = [policy for policy in Routing if policy is not Routing.FLOODING]
MODES = [
    {"routing": routing, "advertisements": advertised, "hierarchical": hierarchical}
    for routing, advertised, hierarchical in product(Routing, (False, True), (False, True))
]
CASES = pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))


def tables(brokers):
    """All that is received from neighbours, and all that clients have."""
    return {
        name: {
            (layer, source): frozenset(broker.router.received_from(layer, source))
            for layer in Layer
            for source in (*broker.router.neighbours, *broker.sessions.clients)
        }
        for name, broker in brokers.items()
    }


def tables_after(scenario):
    trip = Trip(scenario)
    assert not trip.finish()
    return tables(trip.run.brokers)


# The routing layer (§3.5) -----------------------------------------------------------------------------------------


@CASES
def test_afterwards_tables_are_those_of_a_network_in_which_the_client_was_there_from_the_beginning(mode):
    """Atomicity: all updates have been made; consistency: what each broker has is what its neighbours export."""
    assert tables_after(route(MOVE, **mode)) == tables_after(route(at="t", **mode))


@CASES
def test_brokers_off_the_path_notice_nothing(mode):
    """Claim 1, and isolation: no table of theirs changes, at no time, since nobody tells them anything."""
    run = ScenarioRun(route(MOVE, **mode), 1)
    result = run.finish()
    assert tables(run.brokers)["t"] != tables_after(route(**mode))["t"]
    path_links = {frozenset(pair) for pair in pairwise(PATH)}
    off_path = {frozenset(link) for link in LINKS} - path_links
    told = [
        record
        for record in result.records
        if record.kind is RecordKind.SEND
        and record.at > MOVES_AT
        and record.message in {"Install", "Withdraw"}
        and frozenset((record.node, record.peer)) in off_path
    ]
    assert not told


@pytest.mark.parametrize("routing", POLICIES)
def test_what_changes_on_the_path_is_about_the_client(routing):
    """Claim 2, and isolation: entries of the moving client; where filters hide others, also what they hid and hide."""
    before, after = tables_after(route(routing=routing)), tables_after(route(MOVE, routing=routing))
    wanted = [parse_filter(text) for text in WANTED[MOVER]]
    own = {owner(MOVER, f"s{i}") for i in range(1, 9)}
    changed = 0
    for name in BROKERS:
        for key in before[name].keys() | after[name].keys():
            difference = before[name].get(key, frozenset()) ^ after[name].get(key, frozenset())
            changed += len(difference)
            if routing is Routing.SIMPLE:
                assert {entry.owner for entry in difference} <= own
            for entry in difference:
                assert any(
                    covers(f, entry.filter) or covers(entry.filter, f) or _merges(routing, f, entry) for f in wanted
                )
    assert changed


def _merges(routing, wanted, entry):
    return routing is Routing.MERGING and overlaps(wanted, entry.filter)


# The client (§3.3) ------------------------------------------------------------------------------------------------


class WatchfulTrip(Trip):
    """Looks at the client after every message of the protocol."""

    def strike_after(self, name):
        running = [b for b, broker in sorted(self.run.brokers.items()) if _runs_at(broker)]
        assert len(running) <= 1, running
        self.seen = {*getattr(self, "seen", ()), *running}
        super().strike_after(name)


def _runs_at(broker):
    """A copy whose state has gone does not run: the other one might."""
    leaving = [m for m in broker.machine(Mobility).movements if isinstance(m, SourceMovement) and m.client == MOVER]
    return MOVER in broker.sessions and not any(m.phase is SourcePhase.PREPARED for m in leaving)


def test_at_no_time_are_there_two_running_copies():
    """Consistency (§3.3), whatever crashes."""
    trip = WatchfulTrip(route(MOVE))
    assert not trip.finish()
    assert trip.seen == {"s", "t"}
    for point in list(trip.points):
        for when in When:
            assert not WatchfulTrip(route(MOVE), (CrashAt(point.index, when, 0.01),)).finish()


# What is refused changes nothing ----------------------------------------------------------------------------------


def test_a_target_without_room_rejects_and_everything_is_as_before():
    trip = Trip(route(MOVE))
    trip.run.brokers["t"].machine(Mobility)._admit = up_to(1)
    assert not trip.finish()
    assert trip.watched.refused_moves == ["0.124: t has room for 1 clients, and takes no more"]
    assert trip.place == ["s"]
    assert tables(trip.run.brokers) == tables_after(route())


def test_those_who_are_on_their_way_need_room_too():
    moves = (MOVE, msgspec.structs.replace(MOVE, client="at-s"))
    trip = Trip(route(*moves))
    trip.run.brokers["t"].machine(Mobility)._admit = up_to(2)
    assert not trip.finish()
    assert len(trip.watched.refused_moves) == 1


def test_what_a_client_wants_needs_room():
    trip = Trip(route(MOVE))
    trip.run.brokers["t"].machine(Mobility)._admit = up_to(10, 3)
    assert not trip.finish()
    assert "room for 3 subscriptions and advertisements" in trip.watched.refused_moves[0]


def test_a_broker_may_ask_whoever_it_wants_whether_a_client_may_come():
    def not_him(arrival):
        assert (arrival.broker, arrival.clients, arrival.names) == ("t", 1, 4)
        assert sorted(f.text for f in arrival.client.subscriptions.values()) == sorted(
            parse_filter(text).text for text in WANTED[MOVER]
        )
        return f"{arrival.client.name} is not allowed here"

    trip = Trip(route(MOVE))
    trip.run.brokers["t"].machine(Mobility)._admit = not_him
    assert not trip.finish()
    assert "mover is not allowed here" in trip.watched.refused_moves[0]


class ImpatientTrip(Trip):
    """The source gives up right after the message number `index`, if it still may."""

    def __init__(self, scenario, index):
        self._index = index
        super().__init__(scenario)

    def strike_after(self, name):
        if len(self.points) == self._index + 1:
            self.run.sim.soon(self._give_up)

    def _give_up(self):
        source = self.run.brokers["s"]
        if any(m.phase is not SourcePhase.PREPARED for m in source.machine(Mobility).movements):
            self.run.sim.perform("s", source.handle_timer(f"{TIMER}1", now=self.run.sim.now))


@pytest.mark.parametrize("mode", MODES[::7], ids=lambda mode: "-".join(map(str, mode.values())))
def test_given_up_after_any_message_it_leaves_everything_as_it_was(mode):
    trip = Trip(route(MOVE, **mode))
    trip.finish()
    before, after = tables_after(route(**mode)), tables(trip.run.brokers)
    places = []
    for point in trip.points:
        given_up = ImpatientTrip(route(MOVE, **mode), point.index)
        assert not given_up.finish(), point
        places += given_up.place
        assert tables(given_up.run.brokers) == (before if given_up.place == ["s"] else after), point
    assert set(places) == {"s", "t"}


@pytest.mark.parametrize("ordering", Ordering)
def test_a_client_that_moves_to_and_fro(ordering):
    moves = [msgspec.structs.replace(MOVE, at=MOVES_AT + 0.07 * i, to=to) for i, to in enumerate(("t", "u", "s"))]
    trip = Trip(route(*moves, ordering=ordering))
    assert not trip.finish()
    assert not trip.watched.refused_moves
    assert tables(trip.run.brokers) == tables_after(route(ordering=ordering))


def test_two_clients_that_change_places():
    moves = (MOVE, msgspec.structs.replace(MOVE, client="at-t", to="s"))
    trip = Trip(route(*moves))
    assert not trip.finish()
    assert not trip.watched.refused_moves


def test_the_second_of_two_wishes_for_one_client_is_put_off_and_finds_it_gone():
    trip = Trip(route(MOVE, msgspec.structs.replace(MOVE, to="u")))
    assert not trip.finish()
    assert [reason.partition(": ")[2] for reason in trip.watched.refused_moves] == ["s has no client mover"]
    assert trip.place == ["t"]


# What it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", Routing)
def test_a_movement_takes_five_messages_per_link_and_three_with_the_client(routing):
    """Whatever is subscribed to. Entries on top of that: at most one install and one withdrawal each per link."""
    run = ScenarioRun(route(MOVE, routing=routing), 1)
    sent = Counter(r.message for r in run.finish().records if r.kind is RecordKind.SEND and r.at >= MOVES_AT)
    links = len(PATH) - 1
    along = ("Negotiate", "Approve", "MoveState", "MoveAck", "MoveCommit")
    assert [sent[message] for message in along] == [links] * len(along)
    assert [sent[message] for message in ("Halt", "Halted", "Resume", "Reject", "MoveAbort")] == [1, 1, 1, 0, 0]
    if routing is Routing.SIMPLE:
        assert sent["Install"] == sent["Installed"] == sent["Withdraw"] == links * len(WANTED[MOVER])
