"""S0 §IV-B (AddBroker) and §IV-C (RemoveBroker), statement by statement. Where we deviate, the test says so."""

from __future__ import annotations

from pleach.core.broker import Broker
from pleach.core.effects import Concluded, LinkDown, LinkUp, Send
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    OPERATOR,
    Attach,
    ClientLeft,
    CloseAB,
    Connect,
    ConnectAck,
    Deliver,
    Farewell,
    Forward,
    Handover,
    Left,
    Publish,
    Redirect,
    RemoveAck,
    RemoveReq,
    RequestAdd,
    RequestRemove,
    RequestSwap,
    Said,
    Subscribe,
)
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import RoutingConfig


def broker(name, *neighbours):
    return Broker(name, RoutingConfig("flooding"), neighbours=neighbours, machines=machines("causal"))


def sends(effects):
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def kinds(effects):
    return [(to, type(message)) for to, message in sends(effects)]


def say(to, sender, message):
    return to.handle(sender, message, now=0.0)


def event(client, number):
    return Event(EventId(client, 0, number), {})


# §IV-B AddBroker, figures 6 and 7 ------------------------------------------------------------------------------------


def test_connect_and_connect_ack():
    """Figure 7: "b sends a connect message to a and receives a connectAck back". A deviation: with a's tables."""
    a, b = broker("a", "x"), broker("b")
    asked = say(b, OPERATOR, RequestAdd("1", "a"))
    assert kinds(asked) == [("a", Connect)]
    answered = say(a, "b", sends(asked)[0][1])
    assert kinds(answered) == [("b", ConnectAck)]
    assert Concluded("1") in say(b, "a", sends(answered)[0][1])
    assert (a.router.neighbours, b.router.neighbours) == (["x", "b"], ["a"])


def test_b_considers_the_link_open_only_after_connect_ack():
    """§IV-B: "Only after receiving this message, b considers the link ⟨ab⟩ as open"."""
    b = broker("b")
    say(b, OPERATOR, RequestAdd("1", "a"))
    assert b.router.neighbours == []
    say(b, "a", ConnectAck("1"))
    assert b.router.neighbours == ["a"]


def test_it_does_not_lock_a():
    """§IV-B: "multiple brokers may start connecting to a concurrently"; also while a is in a swap."""
    a = broker("a", "x")
    say(a, OPERATOR, RequestSwap("1", "a", "x", "y"))
    assert a.operation
    for name in ("b", "c"):
        assert kinds(say(a, name, Connect(name))) == [(name, ConnectAck)]
    assert a.router.neighbours == ["x", "b", "c"]


def test_b_is_available_only_after_connect_ack():
    """§IV-B: "b becomes available for another reconfiguration only after … receiving the connectAck message"."""
    b = broker("b")
    say(b, OPERATOR, RequestAdd("1", "a"))
    assert b.operation == "1"
    say(b, "a", ConnectAck("1"))
    assert not b.operation


def test_clients_of_a_broker_that_joins_wait_for_the_tree():
    """A deviation: in S0 b has no clients. Here their requests are held until connectAck, and nothing is lost."""
    b = broker("b")
    say(b, OPERATOR, RequestAdd("1", "a"))
    assert not say(b, "k", Attach())
    assert sends(say(b, "k", Publish(event("k", 1)))) == []
    adopted = sends(say(b, "a", ConnectAck("1")))
    assert b.sessions.clients == ["k"]
    assert any(to == "k" for to, _ in adopted), "the answer to what was published"


# §IV-C RemoveBroker, figures 8 and 9 ---------------------------------------------------------------------------------


def leaf(*clients):
    """b, a leaf at a, with clients that want everything."""
    b = broker("b", "a")
    for client in clients:
        say(b, client, Attach())
        say(b, client, Subscribe("s", parse_filter("TRUE")))
    return b


def test_it_requires_a_single_neighbour():
    """§IV-C: "the primitive requires b to have a single neighbor"; `overlay/plans` makes it a leaf first."""
    b = broker("b", "a", "c")
    [concluded] = [e for e in say(b, OPERATOR, RequestRemove("1", "b")) if isinstance(e, Concluded)]
    assert "2 neighbours" in concluded.refusal


def test_without_clients_b_is_removed_and_the_process_terminates():
    """§IV-C: "If C_b = ∅, b is removed from the overlay network". A deviation: a is asked whether it is free first."""
    a, b = broker("a", "b", "x"), leaf()
    log, queue = [], [("b", "a", message) for _, message in sends(say(b, OPERATOR, RequestRemove("1", "b")))]
    while queue:
        sender, to, message = queue.pop(0)
        log.append(type(message))
        receiver = a if to == "a" else b
        queue += [(to, there, said) for there, said in sends(say(receiver, sender, message)) if there in ("a", "b")]
    assert log == [RemoveReq, RemoveAck, Handover, CloseAB, Left]
    assert (a.router.neighbours, b.router.neighbours) == (["x"], [])
    assert not a.operation


def test_figure_9_with_one_client():
    """removeReq, then the clients' identities; close(ab) by b to the client; close(ba) by the client, then by b to a.

    A deviation: a does not send `connect` to the client. `Redirect` by b is connect and close(ab) in one.
    """
    b = leaf("k")
    assert kinds(say(b, OPERATOR, RequestRemove("1", "b"))) == [("a", RemoveReq)]
    [(to, handover)] = sends(say(b, "a", RemoveAck("1")))
    assert (to, [client.name for client in handover.clients]) == ("a", ["k"])
    assert sends(say(b, "a", CloseAB("1", "at:1"))) == [("k", Redirect("a", "at:1"))]
    gone = say(b, "k", Farewell())
    assert sends(gone) == [("a", ClientLeft("1", "k")), ("a", Left("1"))]
    assert LinkDown("a") in gone
    assert Concluded("1") in gone


def inheriting():
    """a, which has taken over the client k of b."""
    a, b = broker("a", "b", "x"), leaf("k")
    say(b, OPERATOR, RequestRemove("1", "b"))
    [(_, handover)] = sends(say(b, "a", RemoveAck("1")))
    say(a, "b", RemoveReq("1"))
    return a, say(a, "b", handover)


def test_a_serves_the_clients_and_closes_the_path_by_b():
    """Figure 9: after the handover a sends close(ab), and from then on what is for the client straight to it."""
    a, taken = inheriting()
    assert LinkUp("k", is_client=True) in taken
    assert ("b", CloseAB("1")) in sends(taken)
    delivered = sends(say(a, "x", Forward(event("p", 1))))
    assert delivered == [("k", Deliver(event("p", 1)))]


def test_a_accepts_what_clients_send_only_after_close_ba():
    """Figure 9: "Broker a accepts C_b pub-sub messages only after it receives the close(ba) message"."""
    a, _ = inheriting()
    assert sends(say(a, "k", Publish(event("k", 2)))) == []
    assert ("x", Forward(event("k", 1))) in sends(say(a, "b", Said("k", Publish(event("k", 1)))))
    assert ("x", Forward(event("k", 2))) in sends(say(a, "b", ClientLeft("1", "k")))


def test_b_delivers_what_a_sent_before_close_ab():
    """§IV-C: guaranteed delivery; b keeps its tables until it is gone."""
    b = leaf("k")
    say(b, OPERATOR, RequestRemove("1", "b"))
    say(b, "a", RemoveAck("1"))
    assert sends(say(b, "a", Forward(event("p", 1)))) == [("k", Deliver(event("p", 1)))]


def test_clients_may_still_speak_to_b():
    """A deviation: S0's clients stop sending to b at once; ours may have something under way, which b passes on."""
    b = leaf("k")
    say(b, OPERATOR, RequestRemove("1", "b"))
    say(b, "a", RemoveAck("1"))
    assert sends(say(b, "k", Publish(event("k", 1)))) == [("a", Said("k", Publish(event("k", 1))))]


def test_a_is_locked_until_b_has_left():
    """§IV-C with §III, locking strategy: a takes part in no other reconfiguration meanwhile."""
    a, _ = inheriting()
    assert a.operation == "1"
    say(a, "b", ClientLeft("1", "k"))
    assert LinkDown("b") in say(a, "b", Left("1"))
    assert not a.operation
