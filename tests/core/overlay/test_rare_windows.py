"""Windows that random runs hardly meet, each entered on purpose; that it was entered is asserted, too."""

from __future__ import annotations

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import LinkUp, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import Advertise, Advertised, Attach, Layer, LockCycle, Publish, PublishRefused, Withdraw
from pleach.core.overlay.swaplink.transitions import SwapPhase
from pleach.scenario.load import parse_scenario
from pleach.scenario.machines import make_machine, tree_of
from support.overlay.judgement import outcome

ADDRESS = "10.0.0.1:7000"
NETWORK = """
name = "rare windows"
routing = "covering"
ordering = "causal"
advertisements = {advertisements}
brokers = ["a", "b", "c"]
links = [["a", "b"], ["b", "c"]]
duration = 2.0

[latency]
default = 0.001
"a-b" = 0.004

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.002, from = 0.4, until = 0.7, attributes = {{ price = {{ sequence = true }} }} }}

[[clients]]
id = "s"
broker = "b"
subscribe = ["price >= 0", "price > 100"]

[[clients]]
id = "t"
broker = "c"
subscribe = ["price > 20"]
"""
SWAP = """
[[steps]]
do = "swap"
brokers = ["a", "b", "c"]
at = 0.5

[[steps]]
do = "unsubscribe"
client = "s"
filter = "price >= 0"
at = {at}
"""


def network(advertisements="false", more=""):
    return parse_scenario(NETWORK.format(advertisements=advertisements) + more)


# A withdrawal that a gets from b between its own adoption and close(ba) --------------------------------------------


def test_a_withdrawal_on_the_closing_link_of_a_swap_at_any_moment(monkeypatch):
    """b takes a filter back while a, which has adopted the new routing, still hears b over the link that goes."""
    met = []
    handle = Broker.handle

    def noting(self, sender, message, *, now):
        swap = self._machines["swaplink"]._part.state.swap
        if self.name == "a" and sender == "b" and type(message) is Withdraw and swap is not None:
            met.append(swap.phase)
        return handle(self, sender, message, now=now)

    monkeypatch.setattr(Broker, "handle", noting)
    for moment in range(40):
        at = round(0.495 + moment * 0.001, 4)
        _, verdict, flaws = outcome(network(more=SWAP.format(at=at)))
        assert not flaws, at
        assert verdict.counts.deliveries
    assert SwapPhase.ADOPTED in met, f"no withdrawal came in the window, but {met}"


# The address of u after a restart of v -----------------------------------------------------------------------------


def test_v_knows_where_u_is_after_a_restart_in_the_middle_of_an_exchange():
    scenario = network()
    v = make_machine(scenario, tree_of(scenario), "c")
    lock = LockCycle("1", ["a", "b", "c"], 0, "advanced-coordinated", ADDRESS)
    assert LinkUp("a", ADDRESS) in v.handle("b", lock, now=0.0)
    again = make_machine(scenario, tree_of(scenario), "c")
    again.restore(v.capture())
    assert again._context.addresses["a"] == ADDRESS
    assert again._machines["exchange"]._state.address == ADDRESS
    assert again.operation == "1"


# A renewed advertisement with another filter ------------------------------------------------------------------------


def test_a_renewal_with_another_filter_takes_the_place_of_the_advertisement():
    """The broker's state was damaged: the name stands for a filter that the client has never advertised."""
    scenario = network(advertisements="true")
    broker = make_machine(scenario, tree_of(scenario), "c")
    client = ClientMachine("p", "c")
    damaged, true = parse_filter("price > 50"), parse_filter("price > 10")
    broker.handle("p", Attach(), now=0.0)
    broker.handle("p", Advertise("ad", damaged), now=0.0)
    renewed = broker.handle("p", Advertise("ad", true, renews=True), now=0.0)
    assert [entry.filter for entry in broker.router.received_from(Layer.ADVERTISEMENTS, "p")] == [true]
    taken_back = [each.message.filter for each in renewed if isinstance(each, Send) and type(each.message) is Withdraw]
    assert taken_back == [damaged]
    asked = [each for each in client.publish({"price": 20}) if isinstance(each, Send)]
    early = broker.handle("p", asked[-1].message, now=0.0)
    assert any(isinstance(each, Send) and type(each.message) is PublishRefused for each in early), (
        "it is in effect late"
    )
    assert not [each for each in renewed if isinstance(each, Send) and type(each.message) is Advertised]
    assert type(asked[-1].message) is Publish
