"""Virtual time: order, latency, cuts, crashes, timers, and the bound on steps."""

import pytest

from pleach.core.effects import CancelTimer, Observe, Observed, Send, SetTimer
from pleach.core.messages import Attach, Unsubscribe
from pleach.errors import LivenessError
from pleach.sim.simulator import Simulator


class Sink:
    """Notes what it gets, and when."""

    def __init__(self):
        self.got = []

    def handle(self, sender, message, *, now):
        self.got.append((now, sender, message))
        return []


class Echo:
    def handle(self, sender, message, *, now):
        return [Send(sender, message)]


class Alarm:
    """Sets, resets and cancels timers as told by the message's text."""

    def __init__(self):
        self.fired = []

    def handle(self, sender, message, *, now):
        match message.subscription.split():
            case ["set", name, after]:
                return [SetTimer(name, float(after))]
            case ["cancel", name]:
                return [CancelTimer(name)]

    def handle_timer(self, name, *, now):
        self.fired.append((name, now))
        return []


def two(latency=(0.001, 0.025), *, receiver=None, seed="s"):
    sim = Simulator(seed)
    receiver = receiver or Sink()
    sim.add("a", Sink())
    sim.add("b", receiver)
    sim.link("a", "b", latency)
    return sim, receiver


def numbered(count):
    return [Send("b", Unsubscribe(str(number))) for number in range(count)]


def texts(sink):
    return [message.subscription for _, _, message in sink.got]


def test_a_link_keeps_the_order_whatever_the_latency():
    sim, sink = two()
    for tenth in range(50):
        sim.at(tenth / 1000, lambda: sim.perform("a", numbered(4)))
    sim.run()
    assert texts(sink) == ["0", "1", "2", "3"] * 50
    times = [now for now, _, _ in sink.got]
    assert times == sorted(times)


def test_latency_stays_within_its_bounds():
    sim, sink = two((0.010, 0.020))
    sent = [step / 10 for step in range(200)]
    for time in sent:
        sim.at(time, lambda: sim.perform("a", numbered(1)))
    sim.run()
    delays = [now - time for time, (now, _, _) in zip(sent, sink.got, strict=True)]
    assert min(delays) >= 0.010
    assert max(delays) <= 0.020
    assert max(delays) - min(delays) > 0.008


def test_the_seed_decides_the_latencies():
    def arrivals(seed):
        sim, sink = two(seed=seed)
        sim.perform("a", numbered(20))
        sim.run()
        return [now for now, _, _ in sink.got]

    assert arrivals("1") == arrivals("1") != arrivals("2")


def test_a_cut_link_resends_in_order_once_it_is_whole():
    """What was in flight, what was sent during the cut, and what is sent after: all arrive, in order."""
    sim, sink = two((0.1, 0.1))
    forth, back = sim.links_between("a", "b")
    sim.at(0.0, lambda: sim.perform("a", [Send("b", Unsubscribe("in flight"))]))
    sim.at(0.05, lambda: [sim.block(link) for link in (forth, back)])
    sim.at(1.0, lambda: sim.perform("a", [Send("b", Unsubscribe("during"))]))
    sim.at(1.05, lambda: [sim.unblock(link) for link in (forth, back)])
    sim.at(1.06, lambda: sim.perform("a", [Send("b", Unsubscribe("after"))]))
    sim.run()
    assert texts(sink) == ["in flight", "during", "after"]
    assert sink.got[0][0] >= 1.05


def test_a_drain_does_not_call_a_cut_network_quiet():
    sim, sink = two()
    forth, _ = sim.links_between("a", "b")
    sim.block(forth)
    sim.perform("a", numbered(1))
    assert not sim.drain()
    sim.unblock(forth)
    assert sim.drain()
    assert texts(sink) == ["0"]


def test_a_drain_leaves_the_agenda_alone():
    sim, sink = two((0.5, 0.5))
    sim.at(0.0, lambda: sim.perform("a", numbered(1)))
    sim.at(0.1, sim.drain)
    sim.at(0.2, lambda: sim.perform("a", [Send("b", Unsubscribe("late"))]))
    sim.run()
    assert [(round(now, 3), m.subscription) for now, _, m in sink.got] == [(0.5, "0"), (1.0, "late")]


def test_what_is_sent_to_a_crashed_node_waits_for_its_successor():
    sim, old = two((0.1, 0.1))
    new = Sink()
    sim.at(0.0, lambda: sim.perform("a", numbered(2)))
    sim.at(0.05, lambda: sim.crash("b"))
    sim.at(1.0, lambda: sim.restart("b", new))
    sim.run()
    assert not old.got
    assert texts(new) == ["0", "1"]


def test_timers_fire_once_and_can_be_set_anew_or_cancelled():
    sim, alarm = two((0.0, 0.0), receiver=Alarm())
    for text in ("set first 1", "set second 1", "set third 1", "set first 3", "cancel second"):
        sim.perform("a", [Send("b", Unsubscribe(text))])
    sim.run()
    assert alarm.fired == [("third", 1.0), ("first", 3.0)]


def test_a_crash_silences_the_timers_of_the_crashed():
    sim, alarm = two((0.0, 0.0), receiver=Alarm())
    sim.perform("a", [Send("b", Unsubscribe("set x 5"))])
    sim.at(1.0, lambda: sim.crash("b"))
    sim.run()
    assert alarm.fired == []


def test_loss_is_there_to_be_seen():
    sim, sink = two()
    forth, _ = sim.links_between("a", "b")
    forth.loss = 0.5
    sim.perform("a", numbered(1000))
    sim.run()
    assert 400 < len(sink.got) < 600
    assert [int(text) for text in texts(sink)] == sorted(int(text) for text in texts(sink))


def test_two_that_never_stop_talking_run_into_the_bound():
    sim = Simulator("s", steps_max=1000)
    sim.add("a", Echo())
    sim.add("b", Echo())
    sim.link("a", "b", (0.001, 0.001))
    sim.perform("a", [Send("b", Attach())])
    with pytest.raises(LivenessError, match="not quiet"):
        sim.run()


def test_observations_reach_the_listener():
    seen = []
    sim, _ = two()
    sim.on_observe = lambda at, node, observed: seen.append((at, node, observed.kind))
    sim.perform("a", [Observe(Observed.STATE, detail="x")])
    assert seen == [(0.0, "a", Observed.STATE)]
