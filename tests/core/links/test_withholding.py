"""Events that wait for a client are withheld when its rights are narrowed (docs/protocols/rights.md)."""

import pytest

from pleach.core.access.rights import EVERYTHING, FALSE, NOTHING, TRUE, Rights
from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Observed
from pleach.core.events.event import WITHHELD, Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint, Saved
from pleach.core.links.frames import Data, Hello
from pleach.core.links.session import SessionState
from pleach.core.links.withholding import Withholding
from pleach.core.messages import (
    Attach,
    Deliver,
    Forward,
    HandedClient,
    MoveState,
    Negotiate,
    Permit,
    Published,
    Subscribe,
    decode,
    encode,
)
from pleach.core.messages.runs import Run, decode_all, encode_event, encode_run, messages_in
from pleach.core.mobility.machine import Mobility
from pleach.core.routing.router import RoutingConfig
from pleach.errors import EventError

EU = Rights(TRUE, parse_filter("region = 'eu'"), TRUE)


def event(number, **attributes):
    return Event(EventId("p", 1, number), attributes, b"body")


def run_of(kind, *events):
    return encode_run(kind, len(events), b"".join(map(encode_event, events)))


MIXED = [event(1, region="eu"), event(2, region="us"), event(3, region="eu", salary=9), event(4, region="us")]


def test_a_run_keeps_its_length_and_its_permitted_events():
    payload = Withholding(EU)(run_of(Deliver, *MIXED))
    assert [each.event for each in decode_all(payload)] == [MIXED[0], WITHHELD, MIXED[2], WITHHELD]
    assert messages_in(payload) == 4


def test_what_is_hidden_goes_and_the_rest_stays():
    rights = Rights(TRUE, TRUE, TRUE, ("salary",))
    payload = Withholding(rights)(run_of(Deliver, *MIXED))
    assert [each.event for each in decode_all(payload)] == [*MIXED[:2], event(3, region="eu"), MIXED[3]]


def test_a_single_delivery_is_withheld():
    payload = Withholding(EU)(encode(Deliver(MIXED[1])))
    assert decode(payload) == Deliver(WITHHELD)
    assert Withholding(EU)(payload) is payload


@pytest.mark.parametrize(
    "payload",
    [
        run_of(Deliver, MIXED[0], MIXED[2]),
        run_of(Forward, *MIXED),
        encode(Deliver(MIXED[0])),
        encode(Forward(MIXED[1])),
        encode(Published(EventId("c", 1, 1))),
        encode(Attach()),
    ],
    ids=["permitted run", "run of forwards", "permitted", "forward", "confirmation", "other"],
)
def test_what_need_not_change_stays_the_same_object(payload):
    assert Withholding(EU)(payload) is payload


def test_only_a_delivery_may_be_a_withheld_event():
    with pytest.raises(EventError):
        decode(encode(Forward(WITHHELD)))
    with pytest.raises(EventError):
        Run(run_of(Forward, MIXED[0], WITHHELD)).messages()


# In the outbox ------------------------------------------------------------------------------------------------


def broker(saved=None):
    """Neighbour `n`, client `c`, which wants all and is away."""
    endpoint = Endpoint(Broker("b", RoutingConfig(), neighbours=["n"]), 5)
    if saved is not None:
        endpoint.recover(saved)
        return endpoint
    for peer in "nc":
        endpoint.connected(peer, now=0.0)
        endpoint.receive(peer, Hello(peer, 3, 5, 0, 1), now=0.0)
    endpoint.receive("c", Data(1, encode(Attach())), now=0.0)
    endpoint.receive("c", Data(2, encode(Subscribe("s", TRUE, network_wide=False))), now=0.0)
    endpoint.take_batch()
    return endpoint


def forwarded(endpoint, first, *events):
    endpoint.receive_data("n", [Data(first + n, encode(Forward(each))) for n, each in enumerate(events)], now=0.0)


def waiting(endpoint):
    return [message for _, payload in endpoint.sessions["c"].payloads(0) for message in decode_all(payload)]


def deliveries(endpoint):
    return [message.event for message in waiting(endpoint) if isinstance(message, Deliver)]


def test_what_waits_is_withheld_in_its_place():
    endpoint = broker()
    endpoint.disconnected("c")
    forwarded(endpoint, 1, *MIXED)
    before = endpoint.take_batch()
    endpoint.request(Permit("c", "alice", EU), now=0.0)
    batch = endpoint.take_batch()
    assert deliveries(endpoint) == [MIXED[0], WITHHELD, MIXED[2], WITHHELD]
    (rewritten,) = batch.rewritten
    (queued,) = [each for each in before.queued if each.peer == "c" and messages_in(each.payload) == 4]
    assert (rewritten.peer, rewritten.sequence) == ("c", queued.sequence)
    session = endpoint.sessions["c"]
    assert session.outbox_bytes == sum(len(payload) for _, payload in session.payloads(0))
    assert session.unconfirmed == len(waiting(endpoint))


def test_what_was_queued_in_the_same_batch_is_never_seen_by_anybody():
    """Events and the permit in one batch: also in the frames that it transmits."""
    endpoint = broker()
    forwarded(endpoint, 1, *MIXED)
    endpoint.receive("c", Data(3, encode(Attach())), now=0.0)  # its answer makes the session send what it has
    endpoint.request(Permit("c", "alice", EU), now=0.0)
    batch = endpoint.take_batch()
    assert batch.rewritten == []
    told = [frame.payload for peer, frame in batch.transmits if peer == "c" and isinstance(frame, Data)]
    for payloads in (told, [each.payload for each in batch.queued if each.peer == "c"]):
        events = [each.event for payload in payloads for each in decode_all(payload) if isinstance(each, Deliver)]
        assert events == [MIXED[0], WITHHELD, MIXED[2], WITHHELD]


def test_a_wider_right_rewrites_nothing():
    endpoint = broker()
    endpoint.request(Permit("c", "alice", EU), now=0.0)
    endpoint.take_batch()
    endpoint.disconnected("c")
    forwarded(endpoint, 1, *MIXED)
    endpoint.take_batch()
    endpoint.request(Permit("c", "alice", EVERYTHING), now=0.0)
    assert endpoint.take_batch().rewritten == []
    assert deliveries(endpoint) == [MIXED[0], MIXED[2]]


def test_replaying_the_journal_does_not_withhold_again():
    """What was queued after a wider right had come stays: the journal has the narrow one, too."""
    endpoint = broker()
    journal = []
    endpoint.disconnected("c")
    captured = endpoint.capture()
    endpoint.request(Permit("c", "alice", Rights(TRUE, FALSE, TRUE)), now=0.0)
    endpoint.request(Permit("c", "alice", EVERYTHING), now=0.0)
    endpoint.take_batch()
    for rights in (EU, EVERYTHING):
        endpoint.request(Permit("c", "alice", rights), now=0.0)
        journal += endpoint.take_batch().journal
    endpoint.receive("n", Data(1, encode(Forward(MIXED[1]))), now=0.0)
    endpoint.take_batch()
    sessions = {peer: session.capture() for peer, session in endpoint.sessions.items()}
    again = broker(Saved(captured, journal, sessions))
    assert deliveries(again) == deliveries(endpoint)
    assert again.sessions["c"].capture() == SessionState(
        5, 3, 2, endpoint.sessions["c"].first, endpoint.sessions["c"].capture().outbox
    )


def test_a_client_drops_what_is_withheld():
    machine = ClientMachine("c", "b")
    seen = [effect for each in (MIXED[0], WITHHELD, MIXED[2]) for effect in machine.handle("b", Deliver(each), now=0.0)]
    assert [(each.kind, each.event) for each in seen] == [(Observed.DELIVER, MIXED[0]), (Observed.DELIVER, MIXED[2])]


# Clients that arrive ------------------------------------------------------------------------------------------


class JudgingBroker(Broker):
    """Its driver judges who has arrived, while the machine handles what they arrived with."""

    endpoint: Endpoint | None = None

    def handle(self, sender, message, *, now):
        effects = super().handle(sender, message, now=now)
        if self.endpoint is not None and not isinstance(message, Permit):
            for client in self.sessions.unjudged:
                self.endpoint.follow_up(Permit(client, "alice", EU))
        return effects


def target(saved=None):
    machine = JudgingBroker("t", RoutingConfig(), neighbours=["n"], machines=[Mobility])
    endpoint = Endpoint(machine, 5)
    if saved is not None:
        endpoint.recover(saved)
        return endpoint
    machine.endpoint = endpoint
    endpoint.connected("n", now=0.0)
    endpoint.receive("n", Hello("n", 3, 5, 0, 1), now=0.0)
    endpoint.request(Permit("", "", NOTHING), now=0.0)
    return endpoint


def test_a_client_that_moves_here_is_judged_right_behind_its_arrival():
    """It may have had wider rights where it was, and events wait for it here; a replay comes to the same."""
    endpoint = target()
    endpoint.take_batch()
    captured = endpoint.capture()
    names = {"subscriptions": {"s": TRUE}, "advertisements": {}}
    client = HandedClient("c", own_events=True, **names, confirmed=[], waiting=[])
    for number, message in enumerate(
        [Negotiate("1", client, ["n", "t"]), *map(Forward, MIXED), MoveState("1", client)], 1
    ):
        endpoint.receive("n", Data(number, encode(message)), now=0.0)
    batch = endpoint.take_batch()
    assert deliveries(endpoint) == [MIXED[0], WITHHELD, MIXED[2], WITHHELD]
    assert endpoint.machine.sessions.unjudged == []
    kinds = [type(decode(entry.payload)) for entry in batch.journal]
    assert kinds.index(MoveState) < kinds.index(Permit)
    sessions = {peer: session.capture() for peer, session in endpoint.sessions.items()}
    again = target(Saved(captured, batch.journal, sessions))
    assert again.machine.capture() == endpoint.machine.capture()
