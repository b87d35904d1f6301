"""S2 §4 and §6 (the reconfiguration path), statement by statement, on the tree of its Figure 3.

    H ─ E ─ A ══r══ B ─ K        link (A, B) is replaced by link (C, D); E and D subscribe to the same pattern
        │           │            H, J and K are not on the reconfiguration path; H and K subscribe as well
    J ─ F           G
        │           │
        C ╌╌╌╌a╌╌╌╌ D

What we do otherwise than S2 is said at the test; docs/protocols/path.md has the list.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from pleach.core.broker import Broker
from pleach.core.messages import Layer, LockCycle
from pleach.core.overlay.exchange.cycle import Cycle, CycleRole
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import RoutingConfig
from pleach.scenario import parse_scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, judge
from support.explore.chains import client
from support.explore.cycles import AGAIN, cycle, explored

LINKS = ("AB", "AE", "EF", "FC", "BG", "GD", "EH", "FJ", "BK")
PATH = "AEFCDGB"  # S2: (A, E, F, C, D, G, B)
HEAD, TAIL, OFF_PATH = "AEFC", "DGB", "HJK"
AT = 1.0
ROUTING = ("Install", "Withdraw")
SUBSCRIBERS = {"E": "p = 1", "D": "p = 1", "H": "q > 5", "K": "q > 3"}

SCENARIO = """
name = "figure 3"
routing = "identity"
ordering = "none"
links = {links}
duration = 3.0
latency = {{ default = 0.001 }}
exchange = "path"

{clients}
[[steps]]
at = {at}
do = "exchange"
remove = ["A", "B"]
add = ["C", "D"]

[[steps]]
at = 2.0
do = "drain"
"""
LOAD = "publish = { every = 0.05, from = 2.1, until = 2.4, attributes = { p = 1, q = 9 } }"


def figure_3(exchange="path", **changes):
    links = [list(link) for link in LINKS]
    subscribed = [f'[[clients]]\nid = "at-{b}"\nbroker = "{b}"\nsubscribe = ["{f}"]' for b, f in SUBSCRIBERS.items()]
    publishing = [f'[[clients]]\nid = "from-{b}"\nbroker = "{b}"\n{LOAD}' for b in "CJKG"]
    scenario = parse_scenario(SCENARIO.format(links=links, clients="\n".join((*subscribed, *publishing)), at=AT))
    return msgspec.structs.replace(scenario, exchange=exchange, **changes)


def tables(run):
    """What each broker has from each neighbour."""
    return {
        name: {
            neighbour: {
                (layer, entry.filter) for layer in Layer for entry in broker.router.received_from(layer, neighbour)
            }
            for neighbour in broker.router.neighbours
        }
        for name, broker in run.brokers.items()
    }


def finished(scenario):
    run = ScenarioRun(scenario, 1)
    return run, run.finish()


def sent(result, *kinds):
    """Messages of these kinds between brokers since the exchange began, as (kind, from, to)."""
    return [
        (record.message, record.node, record.peer)
        for record in result.records
        if record.kind is RecordKind.SEND
        and record.at >= AT
        and record.message in kinds
        and {record.node, record.peer} <= {*PATH, *OFF_PATH}
    ]


# §4.2 Delimiting the reconfiguration ------------------------------------------------------------------------------


def test_the_reconfiguration_path_is_head_path_new_link_and_tail_path():
    """§4.2. S2 begins at an end of the removed link, and we at the end of the new one that is asked: u = C."""
    ours = Cycle("1", [*"CFEABGD"], 3, "path")
    assert [ours.x, *ours.way_around(ours.x)] == [*PATH]
    assert "".join(ours.side("A")[::-1]) == HEAD
    assert "".join(ours.side("B")) == TAIL
    assert [ours.roles(broker) for broker in "FEG"] == [CycleRole.HEAD, CycleRole.HEAD, CycleRole.TAIL]


def test_dispatchers_that_are_not_on_the_path_experience_no_change():
    """§4.2, in italics: one "that does not belong to the reconfiguration path does not experience a change"."""
    before, _ = finished(figure_3(steps=()))
    after, result = finished(figure_3())
    assert not [message for message in sent(result, *ROUTING) if {*message[1:]} & {*OFF_PATH}]
    for broker in OFF_PATH:
        assert tables(before)[broker] == tables(after)[broker]


def test_afterwards_tables_are_those_of_the_new_tree():
    """§4.3, first paragraph: ab is replaced by ab1 to ab4, and ba by ba1 to ba3."""
    moved, _ = finished(figure_3())
    links = [link for link in figure_3().links if {*link} != {*"AB"}] + [("C", "D")]
    fresh, _ = finished(figure_3(links=tuple(links), steps=()))
    assert tables(moved) == tables(fresh)


def test_the_strawman_reaches_dispatchers_that_are_not_on_the_path():
    """§4.1: "the reconfiguration messages reach areas of the dispatching tree that should not be affected at all"."""
    _, by_path = finished(figure_3())
    _, by_strawman = finished(figure_3("strawman"))
    assert [message for message in sent(by_strawman, *ROUTING) if {*message[1:]} & {*OFF_PATH}]
    assert len(sent(by_strawman, *ROUTING)) > len(sent(by_path, *ROUTING))


# §4.3.1 Basic operation -------------------------------------------------------------------------------------------


def test_recmsg_goes_along_the_path_in_one_direction_once():
    """§4.3.1: created at the initiator, A, and propagated along the reconfiguration path."""
    _, result = finished(figure_3())
    assert sent(result, "Reconfigure") == [("Reconfigure", a, b) for a, b in pairwise(PATH)]


def test_the_first_end_of_the_new_link_activates_it_and_sends_its_subscriptions_before_recmsg():
    """§4.3.1, reconciling: "activates the new link and sends to the second end-point a subscription message for each
    event pattern in its subscription table, followed by a RECMSG"."""
    _, result = finished(figure_3())
    over_new = [kind for kind, *ends in sent(result, "Activate", "Install", "Reconfigure") if ends == ["C", "D"]]
    assert over_new[0] == "Activate"
    assert over_new[-1] == "Reconfigure"
    assert {*over_new[1:-1]} == {"Install"}


def test_no_subscription_is_sent_on_the_head_path():
    """§4.3.1: P_add inserts entries "as if it were a subscription coming from the next dispatcher"."""
    _, result = finished(figure_3())
    head = {frozenset(link) for link in pairwise(HEAD)}
    assert not [message for message in sent(result, "Install") if frozenset(message[1:]) in head]


def test_unsubscriptions_at_the_end_stay_on_the_tail_path():
    """§4.3.1, completing: they "propagate normally, eliminating only the superfluous subscriptions"."""
    _, result = finished(figure_3())
    withdrawn = sent(result, "Withdraw")
    assert withdrawn
    assert all({*message[1:]} <= {*TAIL} | {*HEAD} for message in withdrawn)


# §4.3.2 Concurrent (un)subscriptions ------------------------------------------------------------------------------


def test_each_dispatcher_of_the_head_path_acknowledges_recmsg():
    """§4.3.2, race conditions: unsubscriptions are delayed "until the downstream dispatcher acknowledges"."""
    _, result = finished(figure_3())
    acknowledged = Counter(sent(result, "Reconfigured"))
    assert acknowledged == Counter(("Reconfigured", b, a) for a, b in pairwise(HEAD))


def test_reconciliation_as_printed_loses_a_subscription_and_ours_does_not():
    """§4.3.2, reconciling: D sends unsubscriptions at once, and at the end compares the old copy of P_add.

    Who unsubscribes before RECMSG comes and subscribes again after it is in both. We deviate: D does both at the end.
    """
    clients = (client("p", "1"), client("s", "4", "price > 50"))
    printed = explored(cycle(*AGAIN, clients=clients, exchange="path-printed"))
    assert set(printed.kinds) == {"tables disagree"}
    assert not explored(cycle(*AGAIN, clients=clients, exchange="path")).finding


# §5 and §6 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", ["path", "strawman", "deferred"])
def test_event_delivery_returns_to_all_events_after_each_reconfiguration(exchange):
    """§5: "event delivery returns to 100% after each reconfiguration"."""
    _, result = finished(figure_3(exchange))
    delivered = Counter(record.client for record in result.records if record.kind is RecordKind.DELIVER)
    published = sum(record.kind is RecordKind.PUBLISH for record in result.records)
    assert published > 20
    assert delivered == dict.fromkeys((f"at-{broker}" for broker in SUBSCRIBERS), published)
    assert not judge(result.records).violations


def test_paths_that_overlap_exclude_each_other():
    """§6: concurrent ones are possible "as long as their reconfiguration paths do not overlap, i.e., they do not share
    a link". We deviate: they must not share a dispatcher, which is locked for one operation at a time."""
    broker = Broker("b", RoutingConfig(), neighbours=["a", "c", "d", "e"], machines=machines("none"))
    broker.handle("a", LockCycle("1", ["a", "b", "c"], 0, "path"), now=0.0)
    (refused,) = broker.handle("d", LockCycle("2", ["d", "b", "e"], 0, "path"), now=0.0)
    assert (refused.to, refused.message.is_busy) == ("d", True)
