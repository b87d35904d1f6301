"""S0 §VI (evaluation): what the three primitives cost on the wire, by type of message.

Published: 12 messages and less than 0.25 KB for a swap where no subscriptions travel (Fig. 12a); nearly all of the rest
in `swap` where they do (Fig. 12b); no traffic for AddBroker in the existing network; 0.11 KB for RemoveBroker and what
the subscriptions weigh, linear in them (Fig. 16).
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from pleach.scenario.model import Ordering, PerLink, PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import AddBroker, RemoveBroker, Swap
from pleach.scenario.values import Span
from pleach.trace import RecordKind, judge
from support.overlay.traffic import Defaults, cost_of_swaps, traffic

KB = 1024
SWAP_MESSAGES = {"Lock": 2, "LockAck": 2, "Swap": 3, "Open": 1, "Close": 4}  # 12 of them, as in figure 5
SWAP_BYTES_MAX = 0.25 * KB
REMOVE_BYTES_MAX = 0.11 * KB
SWAP = Swap(at=1.0, brokers=("a", "b", "c"))

CHAIN = Scenario(
    name="chain",
    routing=Routing.COVERING,
    root="x",
    links=(("x", "a"), ("a", "b"), ("b", "c"), ("c", "z")),
    brokers=("x", "a", "b", "c", "z"),
    duration=2.0,
    latency=PerLink(Span(0.001, 0.001)),
)


def with_clients(*clients, **changes):
    return msgspec.structs.replace(CHAIN, clients=clients, **changes)


# SwapLink -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", ["swaplink", "swaplink-published"])
@pytest.mark.parametrize("routing", Routing)
@pytest.mark.parametrize("ordering", Ordering)
def test_a_swap_takes_twelve_messages_and_less_than_a_quarter_of_a_kilobyte(exchange, routing, ordering):
    """Fig. 12a. Nothing else is sent, by anybody."""
    scenario = with_clients(routing=routing, ordering=ordering, exchange=exchange, steps=(SWAP,))
    sent, result = traffic(scenario, 1)
    assert not result.refusals
    assert sent.messages == SWAP_MESSAGES
    assert sum(sent.bytes.values()) < SWAP_BYTES_MAX


def test_where_nobody_knows_subscriptions_none_travel():
    """Fig. 12a: the cost does not depend on how many there are; flooding brokers know their own clients' only."""
    few, many = (
        traffic(with_clients(subscriber("x", count), routing=Routing.FLOODING, steps=(SWAP,)), 1)[0]
        for count in (1, 50)
    )
    assert few.control == many.control == SWAP_MESSAGES
    assert few.control_bytes == many.control_bytes < SWAP_BYTES_MAX


def test_subscriptions_travel_in_swap_and_nowhere_else():
    """Fig. 12b: linear in what b has to tell c; the number of messages stays."""
    costs = []
    for count in (0, 10, 20, 40):
        clients = (subscriber("x", count), subscriber("b", count))
        sent, _ = traffic(with_clients(*clients, steps=(SWAP,)), 1, since=SWAP.at)
        assert sent.messages == SWAP_MESSAGES
        costs.append(sent)
    others = {sum(sent.bytes.values()) - sent.bytes["Swap"] for sent in costs}
    assert len(others) == 1
    slopes = per_subscription([sent.bytes["Swap"] for sent in costs], (0, 10, 20, 40))
    assert 0 < max(slopes) < 1.1 * min(slopes)


def test_most_of_the_cost_is_swap_in_a_small_default_scenario():
    """Fig. 12b: "more than 99% of the total weight"; a tenth of the default scenario, so a little less."""
    defaults = Defaults(brokers=10, clients=10, swaps=5)
    sent = cost_of_swaps(1, defaults)
    assert sum(sent.control.values()) == 12 * defaults.swaps
    assert sent.bytes["Swap"] > 0.95 * sent.control_bytes


def test_every_extra_copy_is_of_a_flooded_event_and_load_alone_makes_them():
    """Rule 1 of swaplink/events.py: at most one copy per flooded message, none without load, none as published."""
    copies = {}
    for gap in (None, 0.01, 0.001):
        for exchange in ("swaplink", "swaplink-published"):
            sent = swap_under_load(gap, exchange)
            assert sent.control == SWAP_MESSAGES
            assert sent.copies <= sent.flooded
            copies[gap, exchange] = sent.copies
    assert not any(count for (_, exchange), count in copies.items() if exchange == "swaplink-published")
    assert copies[None, "swaplink"] == 0
    assert 0 < copies[0.01, "swaplink"] < copies[0.001, "swaplink"]


def swap_under_load(gap, exchange):
    """Events from all three of the swap, wanted at both ends of the chain."""
    loads = (PublishLoad(every=Span(gap, gap), attributes={"lane0": 1}),) if gap else ()
    speakers = [ScenarioClient(id=f"p{broker}", broker=broker, publish=loads) for broker in "abc"]
    wanting = [ScenarioClient(id=f"s{broker}", broker=broker, subscribe=("EXISTS lane0",)) for broker in "xbz"]
    latency = PerLink(Span(0.001, 0.001), (("a", "b", Span(0.005, 0.005)), ("a", "c", Span(0.025, 0.025))))
    scenario = with_clients(*speakers, *wanting, exchange=exchange, latency=latency, steps=(SWAP,))
    sent, result = traffic(scenario, 1)
    if exchange == "swaplink":
        assert judge([record for record in result.records if record.kind != RecordKind.SEND]).clean
    return sent


# AddBroker and RemoveBroker ----------------------------------------------------------------------------------


def test_a_broker_that_joins_causes_no_traffic_in_the_existing_network():
    """S0 §VI: "only involves the creation of a new connection": all of it is on the new link."""
    scenario = with_clients(subscriber("x", 5), steps=(AddBroker(at=1.0, broker="n", to="b"),))
    sent, result = traffic(scenario, 1, since=1.0)
    assert not result.refusals
    assert sent.messages == {"Connect": 1, "ConnectAck": 1}
    others = [r for r in result.records if r.kind == RecordKind.SEND and r.at >= 1.0 and "n" not in (r.node, r.peer)]
    assert not others


def test_a_broker_without_clients_leaves_with_little_ado():
    """Fig. 16 without subscriptions: 0.11 KB. All of it goes between the two."""
    sent, result = traffic(with_clients(steps=(RemoveBroker(at=1.0, broker="z"),)), 1)
    assert not result.refusals
    assert sent.control == sent.messages
    assert sum(sent.bytes.values()) < REMOVE_BYTES_MAX


def test_leaving_costs_in_proportion_to_the_subscriptions():
    """Fig. 16. Besides the client's own, the neighbour learns nothing that it did not know."""
    counts = (0, 10, 20, 40)
    totals = []
    for count in counts:
        scenario = with_clients(subscriber("z", count), steps=(RemoveBroker(at=1.0, broker="z"),))
        sent, result = traffic(scenario, 1, since=1.0)
        assert not result.refusals
        totals.append(sent.control_bytes)
    slopes = per_subscription(totals, counts)
    assert 0 < max(slopes) < 1.1 * min(slopes)


def subscriber(broker, count):
    """Filters that neither cover nor meet each other, of much the same length."""
    wanted = tuple(f"lane{i} BETWEEN {i} AND {i + 5}" for i in range(100, 100 + count))
    return ScenarioClient(id=f"at-{broker}", broker=broker, subscribe=wanted)


def per_subscription(totals, counts):
    """Bytes for each further subscription."""
    return [
        (after - before) / (m - n) for (before, after), (n, m) in zip(pairwise(totals), pairwise(counts), strict=True)
    ]
