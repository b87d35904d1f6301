"""Brokers that take a time for each message: they wait in line, and cuts, crashes and drains know of the line."""

import pytest

from pleach.core.effects import LinkDown, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import InTable, Layer, Parity, Unsubscribe, Withdraw
from pleach.core.stabilise.twin import ONLY_TREE
from pleach.errors import ScenarioError
from pleach.scenario.load import parse_scenario
from pleach.sim.run import run_scenario
from pleach.sim.service_time import service_of
from pleach.sim.simulator import Simulator
from pleach.trace import RecordKind, judge

SERVICE = 0.010


class Sink:
    def __init__(self):
        self.got = []

    def handle(self, _sender, message, *, now):
        self.got.append((round(now, 6), message.subscription))
        return []


def counter(senders=("a",), latency=(0.001, 0.001)):
    """A node that takes ten milliseconds per message, and others that write to it."""
    sim, desk = Simulator("s"), Sink()
    sim.add("desk", desk, service=lambda _: SERVICE)
    for name in senders:
        sim.add(name, Sink())
        sim.link(name, "desk", latency)
    return sim, desk


def send(sim, sender, *texts):
    sim.perform(sender, [Send("desk", Unsubscribe(text)) for text in texts])


def test_each_message_takes_its_time_one_after_the_other():
    sim, desk = counter()
    send(sim, "a", "1", "2", "3")
    sim.at(0.1, lambda: send(sim, "a", "4"))
    sim.run()
    assert desk.got == [(0.011, "1"), (0.021, "2"), (0.031, "3"), (0.111, "4")]


def test_who_comes_first_is_served_first_whoever_it_is():
    sim, desk = counter("ab")
    send(sim, "a", "a1", "a2")
    sim.at(0.0005, lambda: send(sim, "b", "b1"))
    sim.at(0.002, lambda: send(sim, "a", "a3"))
    sim.run()
    assert [text for _, text in desk.got] == ["a1", "a2", "b1", "a3"]


def test_a_drain_waits_for_the_line():
    sim, desk = counter()
    send(sim, "a", *"12345")
    assert sim.drain()
    assert len(desk.got) == 5
    assert sim.now == pytest.approx(0.051)


@pytest.mark.parametrize(
    ("stop", "go"),
    [
        (lambda sim: sim.crash("desk"), lambda sim, sink: sim.restart("desk", sink)),
        (lambda sim: sim.cut("a", "desk"), lambda sim, _: sim.heal("a", "desk")),
    ],
    ids=["crash", "cut"],
)
@pytest.mark.parametrize("back_at", [0.018, 0.025, 0.2])
def test_a_fault_in_the_middle_keeps_all_in_order(stop, go, back_at):
    sim, desk = counter()
    send(sim, "a", *"1234")
    sim.at(0.015, lambda: stop(sim))
    sim.at(0.016, lambda: send(sim, "a", "5"))
    sim.at(back_at, lambda: go(sim, desk))
    sim.at(back_at + 0.0001, lambda: send(sim, "a", "6"))
    sim.run()
    assert [text for _, text in desk.got] == list("123456")


def test_a_link_over_which_something_came_that_waits_is_still_there():
    sim, _ = counter()
    send(sim, "a", "1", "2")
    sim.run(until=0.005)
    for ends in (("a", "desk"), ("desk", "a")):
        sim.perform(ends[0], [LinkDown(ends[1])])
    assert sim.has_link("a", "desk")
    sim.run()
    assert not sim.has_link("a", "desk")


CHAIN = """
name = "slow brokers"
routing = "covering"
links = [["a", "b"], ["b", "c"]]
duration = 3.0
{service}
[latency]
default = 0.001
[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.05, from = 0.5, until = 2.5, attributes = {{ n = 1 }} }}
[[clients]]
id = "s"
broker = "c"
subscribe = ["n = 1"]
[[steps]]
at = 1.0
do = "move_client"
client = "s"
to = "a"
"""


def first_delay(scenario):
    result = run_scenario(scenario, 1)
    assert judge(result.records).clean
    assert not result.refusals
    published, delivered = (
        next(record.at for record in result.records if record.kind is kind)
        for kind in (RecordKind.PUBLISH, RecordKind.DELIVER)
    )
    return delivered - published


def test_a_scenario_can_have_slow_brokers_and_nothing_is_lost_by_it():
    assert first_delay(parse_scenario(CHAIN.format(service=""))) == pytest.approx(0.004)
    assert first_delay(parse_scenario(CHAIN.format(service="service = 0.01"))) == pytest.approx(0.034)


FAMILY = """
name = "one covers the others"
routing = "{routing}"
links = [["a", "b"]]
duration = 1.0
service = 0.001
service_per_entry = 0.010
[latency]
default = 0.0
[[clients]]
id = "s"
broker = "a"
subscribe = ["n > 3", "n > 2", "n > 1"]
"""


def heard_at(routing):
    """When the client hears that its subscriptions are everywhere."""
    result = run_scenario(parse_scenario(FAMILY.format(routing=routing)), 1)
    return [round(record.at, 6) for record in result.records if record.kind is RecordKind.SUBSCRIBE_ACK]


def test_where_filters_are_compared_each_subscription_that_is_there_takes_its_time():
    """The second and the third one find one and two at their own broker."""
    assert heard_at("covering")[-1] > 0.001 + 0.011 + 0.021
    assert heard_at("simple")[-1] < 0.010, "it compares nothing"


def test_a_broker_that_starts_again_takes_the_time_of_its_table():
    crash = '[[steps]]\nat = 1.1\ndo = "crash"\nbroker = "a"\n[[steps]]\nat = 1.2\ndo = "restart"\nbroker = "a"\n'
    more = '[[steps]]\nat = 1.5\ndo = "subscribe"\nclient = "s"\nfilter = "m = 1"\n'
    text = FAMILY.format(routing="covering").replace("duration = 1.0", "duration = 2.0") + crash + more
    result = run_scenario(parse_scenario(text), 1)
    answered = [record.at for record in result.records if record.kind is RecordKind.SUBSCRIBE_ACK]
    assert answered[-1] - 1.5 > 0.030, "three are there"


@pytest.mark.parametrize("kind", ["rebuild", "rebuild-printed", "rebuild-paced"])
@pytest.mark.parametrize("broker", ["a", "b"])
def test_where_there_are_two_tables_one_that_has_all_is_gone_through(kind, broker):
    """The client is at `a`; `b` hears of its subscriptions in words for a table. Each has all three."""
    stabilise = f'[stabilise]\nkind = "{kind}"\nrefresh = 20.0\nperiod = 50.0\n'
    seen = {}
    run_scenario(parse_scenario(FAMILY.format(routing="simple") + stabilise), 1, watch=seen.update)
    told = InTable(ONLY_TREE, Parity.ODD, Withdraw(Layer.SUBSCRIPTIONS, "s/1", parse_filter("n > 3")))
    takes = service_of(parse_scenario(FAMILY.format(routing="covering") + stabilise), broker, seen)
    assert takes(told) == takes(Unsubscribe("1")) == pytest.approx(0.001 + 3 * 0.010)


def test_a_service_time_below_zero_is_refused():
    with pytest.raises(ScenarioError, match="service"):
        parse_scenario(CHAIN.format(service="service = -0.01"))
