"""What is joined on its way to a peer: runs of events and of confirmations, with nothing overtaken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.event import Event, EventId
from pleach.core.links.run_joiner import RunJoiner
from pleach.core.messages import CONFIRMED_TOGETHER_MAX, Attached, Deliver, Forward, Published, encode
from pleach.core.messages.runs import RUN_BYTES_MAX, RUN_EVENTS_MAX, decode_all, encode_event


def event(sequence, payload=b""):
    return Event(EventId("p", 7, sequence), {}, payload)


class Peers:
    """Takes down what was put, as payloads."""

    def __init__(self):
        self.got = {}
        self.joining = RunJoiner(lambda peer, payload: self.got.setdefault(peer, []).append(payload))

    def send(self, peer, *messages):
        for message in messages:
            match message:
                case Deliver(body) | Forward(body):
                    self.joining.add_events(peer, type(message), 1, encode_event(body))
                case Published():
                    self.joining.add_confirmation(peer, message)
                case _:
                    self.joining.add(peer, encode(message))

    def messages(self, peer):
        return [message for payload in self.got.get(peer, []) for message in decode_all(payload)]


def test_events_that_follow_each_other_become_one_payload():
    peers = Peers()
    peers.send("a", *(Deliver(event(n)) for n in (1, 2, 3)))
    assert peers.got == {}  # open until the batch ends
    peers.joining.close_all()
    assert len(peers.got["a"]) == 1
    assert peers.messages("a") == [Deliver(event(n)) for n in (1, 2, 3)]


def test_nothing_overtakes():
    peers = Peers()
    said = [
        Deliver(event(1)),
        Deliver(event(2)),
        Attached(),
        Deliver(event(3)),
        Forward(event(4)),
        Published(event(9).id),
    ]
    peers.send("a", *said, Deliver(event(5)))
    peers.joining.close_all()
    assert peers.messages("a") == [*said, Deliver(event(5))]
    assert len(peers.got["a"]) == 6


def test_confirmations_of_events_that_follow_each_other_become_one():
    peers = Peers()
    peers.send("a", Published(event(1).id), Published(event(4).id, 3), Published(event(9).id))
    peers.joining.close_all()
    assert peers.messages("a") == [Published(event(4).id, 4), Published(event(9).id)]


def test_confirmations_of_another_incarnation_stay_apart():
    peers = Peers()
    peers.send("a", Published(EventId("p", 7, 1)), Published(EventId("p", 8, 2)))
    peers.joining.close_all()
    assert len(peers.messages("a")) == 2


def test_runs_and_confirmations_are_bounded():
    peers = Peers()
    peers.send("many", *(Deliver(event(n + 1)) for n in range(2 * RUN_EVENTS_MAX + 1)))
    peers.send("large", *(Deliver(event(n + 1, bytes(RUN_BYTES_MAX // 3))) for n in range(5)))
    peers.send("huge", *(Deliver(event(n + 1, bytes(RUN_BYTES_MAX))) for n in range(2)))
    peers.send("confirmed", *(Published(event(n + 1).id) for n in range(CONFIRMED_TOGETHER_MAX + 1)))
    peers.joining.close_all()
    assert [len(decode_all(payload)) for payload in peers.got["many"]] == [RUN_EVENTS_MAX, RUN_EVENTS_MAX, 1]
    assert [len(decode_all(payload)) for payload in peers.got["large"]] == [2, 2, 1]
    assert [len(decode_all(payload)) for payload in peers.got["huge"]] == [1, 1]
    assert [message.count for message in peers.messages("confirmed")] == [CONFIRMED_TOGETHER_MAX, 1]


def test_what_many_get_is_one_object():
    """A store keeps it once."""
    peers = Peers()
    for peer in "abc":
        for body in map(encode_event, (event(1), event(2))):
            peers.joining.add_events(peer, Deliver, 1, body)
    peers.joining.close_all()
    assert len({id(peers.got[peer][0]) for peer in "abc"}) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["deliver", "forward", "confirm", "other", "close"])),
        max_size=30,
    )
)
def test_every_peer_gets_what_was_said_to_it_in_order(steps):
    peers, said = Peers(), {"a": [], "b": []}
    for number, (peer, what) in enumerate(steps, 1):
        kinds = {"deliver": Deliver(event(number)), "forward": Forward(event(number)), "other": Attached()}
        if what == "close":
            peers.joining.close(peer)
            continue
        message = kinds.get(what, Published(event(number).id))
        peers.send(peer, message)
        said[peer].append(message)
    peers.joining.close_all()
    for peer, messages in said.items():
        assert _apart(peers.messages(peer)) == _apart(messages)


def _apart(messages):
    """Confirmations one by one."""
    return [each for m in messages for each in (m.events if isinstance(m, Published) else [m])]
