"""S0 §IV-A (ChangePath and SwapLink), statement by statement, on three brokers a–b–c with a client each.

Messages are handed over one by one, so that each test has the order of delivery that its sentence is about. Figure 5 is
lost in our copy of the paper; its messages follow from the text. Where we deviate, the test says so.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import Concluded, LinkDown, LinkUp
from pleach.core.messages import OPERATOR, Forward, Lock, LockNack, Mark, Marked, RequestSwap
from pleach.core.overlay.swaplink.paths import AB, ABC, BA, CBA, ChangePath
from pleach.core.overlay.swaplink.transitions import SwapPhase, SwapRole
from support.overlay.three import Three, new_broker, swap_at

A, B, C = SwapRole
BOTH = pytest.mark.parametrize("is_published", [False, True], ids=["corrected", "published"])

LOCKS = ["Lock a→b", "Lock b→c", "LockAck c→b", "LockAck b→a"]
SWAPS = ["Swap a→b", "Swap b→c", "Swap c→a"]
CLOSES = ["Open a→c", "Close a→b", "Close b→c", "Close b→a", "Close a→c"]


def swapping(*links, is_published=False):
    """A swap of which the messages on these links have been handed over."""
    three = Three()
    three.swap(is_published=is_published)
    for link in links:
        three.deliver(*link)
    return three


def phases(three):
    swaps = {name: swap_at(broker) for name, broker in three.brokers.items()}
    return {name: swap.phase if swap else SwapPhase.IDLE for name, swap in swaps.items()}


def marked(three, sender, to):
    """The marks of what is under way on a link; None for a plain event."""
    found = [message for message in three.queues.get((sender, to), ()) if isinstance(message, Marked | Forward)]
    return [message.mark if isinstance(message, Marked) else None for message in found]


# The primitive as a whole, figures 2 and 5 --------------------------------------------------------------------------


@BOTH
def test_figure_5_has_twelve_messages(is_published):
    three = swapping(is_published=is_published)
    three.drain()
    assert three.names() == [*LOCKS, *SWAPS, *CLOSES]


@BOTH
def test_it_removes_ab_and_adds_ac(is_published):
    """§IV: "it removes the link connecting a and b, and creates a new link connecting a and c"."""
    three = swapping(is_published=is_published)
    three.drain()
    neighbours = {name: sorted(broker.router.neighbours) for name, broker in three.brokers.items()}
    assert neighbours == {"a": ["c"], "b": ["c"], "c": ["a", "b"]}
    assert [effect for _, effect in three.effects if isinstance(effect, Concluded)] == [Concluded("1")]
    assert {(node, effect.to) for node, effect in three.effects if isinstance(effect, LinkDown)} == {
        ("a", "b"),
        ("b", "a"),
    }


def test_the_request_is_for_brokers_that_are_linked():
    """§IV-A: "a, c ∈ N(b)" and "c ∉ N(a)"."""
    three = Three()
    for brokers in (("a", "c", "b"), ("b", "a", "c")):
        three.say(brokers[0], OPERATOR, RequestSwap("2", *brokers))
    refusals = [effect.refusal for _, effect in three.effects if isinstance(effect, Concluded)]
    assert refusals == ["a and c are not linked", "b and c are linked already"]
    assert not three.sent


# ChangePath, figures 3 and 4 --------------------------------------------------------------------------------------


def test_the_four_changes_of_path():
    """§IV-A (i) to (iv), and State 2 and State 0: which `close` belongs to which path."""
    assert ChangePath(old=(C, B, A), new=(C, A)) == CBA
    assert ChangePath(old=(A, B, C), new=(A, C)) == ABC
    assert ChangePath(old=(A, B), new=(A, C, B)) == AB
    assert ChangePath(old=(B, A), new=(B, C, A)) == BA


def test_from_a_detour_to_a_link_y_holds_until_close():
    """Figure 4a, x = c, z = b, y = a: "y stores these … until it receives the close(xzy)", which is `lockAck`."""
    three = swapping("ab", "bc")
    event = three.publish("c")
    three.deliver("c", "a")
    assert event not in three.delivered["a"], "it has overtaken lockAck"
    three.deliver("c", "b")
    three.deliver("b", "a")
    assert three.delivered["a"] == [event]


def test_events_on_the_old_path_come_before_those_on_the_new_one():
    """Figure 4a: "the Routing Layer receives all the pub-sub messages from the old path before" the others."""
    three = swapping("ab")
    first = three.publish("c")  # by b
    three.deliver("b", "c")
    second = three.publish("c")  # straight
    three.deliver("c", "a")
    three.drain()
    assert three.delivered["a"] == [first, second]


def test_from_a_link_to_a_detour_z_marks_and_y_holds_until_close():
    """Figure 4b, x = a, z = c, y = b: "broker z marks the messages from x with a special flag"."""
    three = swapping("ab", "bc", "cb", "ba", "ab", "bc", "ca")  # up to 7: a has sent 8 and 9
    event = three.publish("a")
    three.deliver("a", "c")  # open(acb)
    three.deliver("a", "c")
    assert marked(three, "c", "b") == [Mark.RELAY]
    three.deliver("c", "b")
    assert three.delivered["b"] == [], "held until close(ab)"
    three.deliver("a", "b")
    assert three.delivered["b"] == [event]


def test_messages_of_z_itself_are_not_held():
    """Figure 4b: "These last ones do not need to wait for the close(xy) message"."""
    three = swapping("ab", "bc", "cb", "ba", "ab", "bc", "ca")
    event = three.publish("c")
    three.deliver("c", "b")
    assert three.delivered["b"] == [event]


def test_z_stops_marking_when_it_hears_close():
    """Figure 4b: "The last close(xy) message notifies broker z that it can safely stop to flag"."""
    three = swapping("ab", "bc", "cb", "ba", "ab", "bc", "ca", "ab", "bc")  # 10 has come to c
    three.publish("a")
    three.deliver("a", "c")
    three.deliver("a", "c")
    assert marked(three, "c", "b") == [None]


# State 0 and State 1: locks ----------------------------------------------------------------------------------------


def test_a_locked_b_replies_with_lock_nack():
    """State 0: "If b is already locked in another reconfiguration, it replies with a lockNack"."""
    three = swapping("ab")
    three.say("b", "c", Lock("2~1", "c", "b", "a"))
    assert three.sent[-1][:2] == ("b", "c")
    assert isinstance(three.sent[-1][2], LockNack)
    assert phases(three)["b"] is SwapPhase.LOCKED


def test_a_locked_c_stops_the_process_and_b_forwards_its_answer():
    """State 0: "c replies with a lockAck or lockNack that b forwards to a". A deviation: a tries again later."""
    three = Three()
    three.say("c", OPERATOR, RequestSwap("2", "c", "b", "a"))  # c is locked, its lock is under way
    three.swap()
    three.deliver("a", "b")
    three.deliver("b", "c")
    three.deliver("c", "b")  # the lock of c: b is locked
    three.deliver("c", "b")
    three.deliver("b", "a")
    assert three.names() == [
        "Lock c→b",
        "Lock a→b",
        "Lock b→c",
        "LockNack c→b",
        "LockNack b→c",
        "LockNack b→a",
    ]
    assert phases(three)["a"] is SwapPhase.IDLE
    assert any(node == "a" and name.startswith("swaplink:retry") for node, name in three.timers)


def test_states_are_entered_where_figure_5_has_them():
    """State 1: who "sends or receives a lock". State 2: c when a–c is there, b on lockAck. State 3: who "sends or
    receives a swap". a goes through state 2 in one step: it sends `swap` on lockAck."""
    three = swapping()
    found = [phases(three)]
    for link in ("ab", "bc", "cb", "ba", "ab", "bc", "ca", "ac", "ab", "bc", "ba", "ac"):
        three.deliver(*link)
        found.append(phases(three))
    as_in_s0 = {SwapPhase.IDLE: 0, SwapPhase.ADOPTED: 0}
    told = ["".join(str(as_in_s0.get(phase, int(phase))) for phase in each.values()) for each in found]
    assert told == ["100", "110", "112", "122", "322", "332", "333", "033", "033", "003", "000", "000", "000"]


def test_in_state_1_the_previous_routing_goes_on():
    """State 1: "it continues to use the previous routing policies"."""
    three = swapping("ab")
    event = three.publish("a")
    assert marked(three, "a", "b") == [None]
    three.drain()
    assert [three.delivered[name] for name in "abc"] == [[event]] * 3


def test_c_creates_the_link_when_it_is_locked():
    """State 1: "When c moves to State 1, it also creates the new overlay link". Here a expects it from the start."""
    three = swapping("ab", "bc")
    opened = [(node, effect.to) for node, effect in three.effects if isinstance(effect, LinkUp)]
    assert opened == [("a", "c"), ("c", "a")]


# State 2 and State 3: flooding ---------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("broker", "abc")
def test_an_event_from_outside_is_flooded_to_both(broker, is_published):
    """State 2: "it sends e to both reconfiguring brokers, marking it with a special flood header"."""
    three = swapping("ab", "bc", "cb", "ba", is_published=is_published)
    three.publish(broker)
    for other in set("abc") - {broker}:
        assert marked(three, broker, other) == [Mark.FLOOD]


def test_an_unmarked_event_from_inside_follows_the_previous_routing():
    """State 2: "then the sender was not yet in State 2 when it delivered e"."""
    three = swapping("ab", "bc", "cb")
    event = three.publish("a")  # a is in state 1
    three.deliver("a", "b")
    assert marked(three, "b", "c") == [None]
    three.drain()
    assert three.delivered["c"] == [event]


def test_a_flooded_event_is_not_forwarded_among_the_three_as_published():
    """State 2: "it does not forward e to the other brokers involved in the same reconfiguration"."""
    three = swapping("ab", "bc", "cb", "ba", is_published=True)
    three.publish("c")
    three.deliver("c", "b")
    assert marked(three, "b", "a") == []


def test_the_corrected_protocol_passes_a_copy_to_the_third():
    """A deviation (docs/protocols/swaplink.md, 1): what S0 forbids here is what keeps causal order."""
    three = swapping("ab", "bc", "cb", "ba")
    event = three.publish("c")
    three.deliver("c", "b")
    assert marked(three, "b", "a") == [Mark.FLOOD]
    three.drain()
    assert three.delivered["a"] == [event], "whichever comes second is dropped"


def test_routing_in_state_3_is_as_in_state_2():
    """State 3: "Routing is performed as in State 2". A deviation (swaplink.md, 4): we flood, and never filter."""
    three = swapping("ab", "bc", "cb", "ba", "ab", "bc")
    assert phases(three)["c"] is SwapPhase.SWAPPING
    three.publish("c")
    assert marked(three, "c", "a") == marked(three, "c", "b") == [Mark.FLOOD]


def test_in_state_3_nothing_comes_from_state_1():
    """State 3: "a broker in State 3 cannot receive pub-sub messages from brokers in State 1": all that comes from the
    others is marked, wherever they publish and however links are delayed."""
    three = swapping("ab", "bc")
    for broker in "abc":
        three.publish(broker)
    while ready := three.ready():
        sender, to = ready[-1]
        message = three.queues[sender, to][0]
        if phases(three)[to] is SwapPhase.SWAPPING:
            assert not isinstance(message, Forward)
        three.deliver(sender, to)


# State 0, new configuration -----------------------------------------------------------------------------------------


@BOTH
def test_paths_of_events_afterwards(is_published):
    """§IV-A (i) to (iv): a ↔ c over the new link, a ↔ b by way of c."""
    three = swapping(is_published=is_published)
    three.drain()
    three.sent.clear()
    three.publish("a")
    three.drain()
    assert [(one, other) for one, other, _ in three.sent] == [("a", "c"), ("c", "b")]
    three.sent.clear()
    three.publish("b")
    three.drain()
    assert [(one, other) for one, other, _ in three.sent] == [("b", "c"), ("c", "a")]


def test_unlocked_brokers_take_part_in_other_reconfigurations():
    """State 0: "from this moment on, it is unlocked and free"; back again by SwapLink(a, c, b)."""
    three = swapping()
    three.drain()
    three.say("a", OPERATOR, RequestSwap("2", "a", "c", "b"))
    three.drain()
    assert {name: sorted(broker.router.neighbours) for name, broker in three.brokers.items()} == {
        "a": ["b"],
        "b": ["a", "c"],
        "c": ["b"],
    }


def test_a_broker_that_starts_knows_of_no_swap():
    """State 0: "not involved in a reconfiguration, it adopts the normal routing policy"."""
    broker = new_broker("b")
    assert not broker.operation
    assert broker.seam.is_idle
