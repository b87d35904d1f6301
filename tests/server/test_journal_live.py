"""What a broker notes of a neighbour is the journal of their link, whatever happens, and after a restart, too."""

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.effects import Send
from pleach.core.events.event import Event, EventId
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import STAND_IN, Ack, Hello
from pleach.core.links.session import Session
from pleach.core.messages import Bereaved, Forward, Got, Sent, Served
from pleach.core.messages.runs import decode_all
from pleach.core.overlay.healing.journal import Journal, marks_of
from pleach.server.healing.witness import DeathWitness
from pleach.server.metrics import HealCounters
from pleach.server.store import Store

PEER, OLD, NEW = "x", 5, 9
PUBLISHERS = ("p", "q")


class Mute:
    """A machine that keeps what it is told."""

    name = "n"

    def __init__(self):
        self.told = []

    def handle(self, sender, message, *, now):
        self.told.append((sender, message))
        return []

    def peer_reset(self, peer):
        self.told.append((peer, None))
        return []


class Bench:
    """A broker's end of one link, beside the journal that overlay/ would keep of it."""

    def __init__(self):
        self.endpoint = Endpoint(Mute(), 1)
        self.witness = DeathWitness(self.endpoint, HealCounters())
        self.journal = Journal()
        self.sequences = dict.fromkeys(PUBLISHERS, 0)
        self.confirmed = 0
        self.rows = {}
        self._connect()

    def _connect(self):
        self.endpoint.connected(PEER, now=0.0)
        self.endpoint.receive(PEER, Hello(PEER, OLD, 0, 0, 1), now=0.0)

    def _next(self, publisher):
        self.sequences[publisher] += 1
        return EventId(publisher, 1, self.sequences[publisher])

    def do(self, act, publisher):
        match act:
            case "send":
                event = Event(self._next(publisher), {})
                self.endpoint.perform([Send(PEER, Forward(event))], now=0.0)
                self.journal.sent(event)
            case "say":
                self.endpoint.perform([Send(PEER, Served())], now=0.0)
            case "get":
                event = self._next(publisher)
                self.witness.got(PEER, [event])
                self.journal.got(event)
            case "confirm":
                self._confirm()
            case "commit":
                self.commit()

    def _confirm(self):
        self.commit()
        session = self.endpoint.sessions[PEER]
        if session.last >= session.first:
            first = session.first
            payloads = dict(session.payloads(0))
            self.endpoint.receive(PEER, Ack(first), now=0.0)
            events = sum(isinstance(m, Forward) for m in decode_all(payloads[first]))
            self.confirmed += events
            self.journal.confirmed(self.confirmed)

    def commit(self):
        """As a store does."""
        self.endpoint.take_batch()
        seen, settled = self.witness.news()
        for row in seen:
            self.rows[row[:3]] = row
        for peer, first in settled:
            self.rows = {key: row for key, row in self.rows.items() if not (key[0] == peer and 0 < key[2] < first)}

    def restart(self):
        self.commit()
        state = self.endpoint.sessions[PEER].capture()
        self.endpoint = Endpoint(Mute(), 1)
        self.endpoint.sessions[PEER] = Session("n", PEER, state)
        self.witness = DeathWitness(self.endpoint, HealCounters(), self.rows.values())
        self.endpoint.connected(PEER, now=0.0)

    def testimony(self):
        """What is said once the neighbour has a stand-in."""
        self.endpoint.disconnected(PEER)
        self.endpoint.connected(PEER, now=1.0)
        self.endpoint.receive(PEER, Hello(PEER, NEW, 0, 0, 1, role=STAND_IN), now=1.0)
        return self.endpoint.machine.told


def _known_before(marks, entries):
    """Per event that was sent: what had come before it, per publisher the highest. That is all that a merge reads."""
    known, found = marks_of(marks), []
    for entry in entries:
        match entry:
            case Got(event):
                known = marks_of([*known.values(), event])
            case Sent(event):
                found.append((event.id, dict(known)))
    return found, known


acts = st.lists(
    st.tuples(st.sampled_from(["send", "say", "get", "confirm", "commit"]), st.sampled_from(PUBLISHERS)), max_size=30
)


@given(acts=acts, restarts=st.booleans())
def test_a_testimony_says_what_the_journal_of_the_link_says(acts, restarts):
    bench = Bench()
    for act in acts:
        bench.do(*act)
    if restarts:
        bench.restart()
    [(_, told)] = bench.testimony()
    marks, entries = bench.journal.hand_over()
    assert isinstance(told, Bereaved)
    assert _known_before(told.marks, told.entries) == _known_before(marks, entries)


def test_one_that_only_lost_its_memory_is_reborn_and_no_stand_in():
    bench = Bench()
    bench.do("send", "p")
    bench.endpoint.disconnected(PEER)
    bench.endpoint.connected(PEER, now=1.0)
    bench.endpoint.receive(PEER, Hello(PEER, NEW, 0, 0, 1), now=1.0)
    assert bench.endpoint.machine.told == [(PEER, None)]


def test_one_that_was_never_met_is_told_too_where_it_is_a_stand_in():
    endpoint = Endpoint(Mute(), 1)
    DeathWitness(endpoint, HealCounters())
    endpoint.connected(PEER, now=0.0)
    endpoint.receive(PEER, Hello(PEER, NEW, 0, 0, 1, role=STAND_IN), now=0.0)
    assert [message for _, message in endpoint.machine.told] == [Bereaved(PEER, [], [])]


def test_sightings_are_on_disk_with_their_batch(tmp_path):
    bench = Bench()
    for act in ("get", "send", "get"):
        bench.do(act, "p")
    with Store.open(tmp_path, "n", epoch=1) as store:
        batch = bench.endpoint.take_batch()._replace(sightings=bench.witness.news())
        store.commit(batch)
        assert [(row.publisher, row.after, row.sequence) for row in store.sightings()] == [("p", 0, 1), ("p", 1, 3)]
        bench.endpoint.receive(PEER, Ack(1), now=0.0)
        store.commit(bench.endpoint.take_batch()._replace(sightings=bench.witness.news()))
    with Store.open(tmp_path, "n", epoch=1) as store:
        assert [(row.publisher, row.after, row.sequence) for row in store.sightings()] == [("p", 0, 3)]
