"""Links that come and go while the simulator runs, and the timers and conclusions of the machines at their ends."""

import pytest

from pleach.core.effects import Concluded, LinkDown, LinkUp, Send, SetTimer
from pleach.core.messages import Unsubscribe
from pleach.errors import LinkError
from pleach.sim.simulator import Simulator

LATENCY = (0.1, 0.1)


class Sink:
    def __init__(self):
        self.got = []
        self.fired = []

    def handle(self, sender, message, *, now):
        self.got.append((sender, message.subscription))
        return []

    def handle_timer(self, name, *, now):
        self.fired.append((name, now))
        return []


def network(*names):
    """Nodes without links; links that come have a latency of a tenth of a second."""
    sim = Simulator("s")
    sim.on_link = lambda link: link.set_latency(LATENCY)
    sinks = {name: Sink() for name in names}
    for name, sink in sinks.items():
        sim.add(name, sink)
    return sim, sinks


def say(text, to="b"):
    return Send(to, Unsubscribe(text))


def texts(sink):
    return [text for _, text in sink.got]


def test_a_machine_may_send_in_the_same_breath_in_which_it_opens_the_link():
    sim, sinks = network("a", "b")
    sim.perform("a", [LinkUp("b", "somewhere"), say("first")])
    sim.run()
    assert sinks["b"].got == [("a", "first")]
    assert sim.now == pytest.approx(0.1)


def test_two_ends_that_open_a_link_open_one():
    sim, sinks = network("a", "b")
    opened = []
    sim.on_link = lambda link: opened.append((link.sender, link.receiver))
    for node, to in (("a", "b"), ("b", "a"), ("a", "b")):
        sim.perform(node, [LinkUp(to), say(node, to)])
    sim.run()
    assert opened == [("a", "b"), ("b", "a")]
    assert (texts(sinks["a"]), texts(sinks["b"])) == (["b"], ["a", "a"])


@pytest.mark.parametrize("before", [[], [LinkUp("b"), LinkDown("b")], [LinkUp("nobody")]])
def test_sending_without_a_link_is_an_error_that_names_both_ends(before):
    sim, _ = network("a", "b")
    with pytest.raises(LinkError, match="a has no link to"):
        sim.perform("a", [*before, say("x")])


def test_one_end_opening_a_link_does_not_let_the_other_send():
    sim, _ = network("a", "b")
    sim.perform("a", [LinkUp("b")])
    with pytest.raises(LinkError, match="b has no link to a"):
        sim.perform("b", [say("x", "a")])


def test_what_was_sent_before_a_link_goes_down_arrives_and_the_link_is_there_until_then():
    sim, sinks = network("a", "b")
    sim.perform("a", [LinkUp("b"), say("last"), LinkDown("b")])
    assert sim.has_link("a", "b")
    assert sim.has_link("b", "a")
    sim.run()
    assert texts(sinks["b"]) == ["last"]
    assert not sim.has_link("a", "b")


def test_a_link_is_there_while_one_end_keeps_it_open():
    sim, _ = network("a", "b")
    sim.link("a", "b")
    sim.perform("a", [LinkDown("b")])
    assert sim.has_link("a", "b")
    sim.perform("b", [LinkDown("a")])
    assert not sim.has_link("a", "b")


def test_a_link_that_comes_back_keeps_the_order():
    """Even if it has become faster meanwhile, nothing overtakes what is still under way."""
    sim, sinks = network("a", "b")
    sim.perform("a", [LinkUp("b"), say("1"), say("2"), LinkDown("b")])
    for link in sim.links_between("a", "b"):
        link.set_latency((0.0, 0.0))
    sim.at(0.05, lambda: sim.perform("a", [LinkUp("b"), say("3")]))
    sim.run()
    assert texts(sinks["b"]) == ["1", "2", "3"]


def test_a_link_to_a_node_that_is_down_keeps_what_is_sent():
    sim, _ = network("a", "b")
    successor = Sink()
    sim.crash("b")
    sim.perform("a", [LinkUp("b"), say("wait"), LinkDown("b")])
    assert not sim.drain()
    sim.restart("b", successor)
    assert sim.drain()
    assert texts(successor) == ["wait"]
    assert not sim.has_link("a", "b")


def test_a_cut_holds_for_the_end_that_opens_the_link_later():
    sim, sinks = network("a", "b")
    sim.perform("a", [LinkUp("b")])
    sim.cut("a", "b")
    sim.perform("b", [LinkUp("a"), say("late", "a")])
    assert not sim.drain()
    sim.heal("b", "a")
    assert sim.drain()
    assert texts(sinks["a"]) == ["late"]


def test_a_link_that_was_cut_and_went_comes_back_whole():
    sim, sinks = network("a", "b")
    sim.perform("a", [LinkUp("b")])
    sim.cut("a", "b")
    sim.perform("a", [LinkDown("b"), LinkUp("b"), say("1")])
    assert sim.drain()
    assert texts(sinks["b"]) == ["1"]


def test_healing_what_is_whole_changes_nothing():
    sim, sinks = network("a", "b")
    sim.link("a", "b")
    sim.heal("a", "b")
    sim.perform("a", [say("1")])
    assert sim.drain()
    assert texts(sinks["b"]) == ["1"]


def test_a_node_may_join_while_others_talk():
    sim, sinks = network("a", "b")
    late = Sink()
    sim.link("a", "b")
    sim.at(1.0, lambda: sim.add("c", late))
    sim.at(1.0, lambda: sim.perform("a", [LinkUp("c"), say("welcome", "c")]))
    sim.run()
    assert texts(late) == ["welcome"]
    assert not sinks["b"].got


def test_a_cancelled_timer_does_not_even_make_time_pass():
    sim, sinks = network("a", "b")
    sim.perform("a", [SetTimer("t", 50.0), SetTimer("t", 1.0)])
    assert sim.drain()
    assert sinks["a"].fired == [("t", 1.0)]
    assert sim.now == 1.0


def test_conclusions_reach_the_listener_and_what_it_does_soon_comes_after_the_other_effects():
    sim, sinks = network("a", "b")
    heard = []

    def listen(at, node, end):
        heard.append((at, node, end))
        sim.soon(lambda: sim.perform("a", [say("after")]))

    sim.on_concluded = listen
    sim.perform("a", [LinkUp("b"), Concluded("1", "no"), say("before")])
    assert sim.drain()
    assert heard == [(0.0, "a", Concluded("1", "no"))]
    assert texts(sinks["b"]) == ["before", "after"]
