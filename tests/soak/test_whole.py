"""What keeps a network from being whole, as brokers tell it."""

import pytest
from msgspec.structs import replace

from pleach.operate.survey import BrokerStatus, ClientStatus, ComponentStatus, NeighbourStatus, StandbyStatus, Survey
from pleach.soak.whole import missing

LINKED = NeighbourStatus(up=True, queued=0)


def broker(name, *neighbours):
    return BrokerStatus(
        name=name,
        ready=True,
        durable=True,
        reasons=[],
        neighbours=dict.fromkeys(neighbours, LINKED),
        clients={f"c-{name}": ClientStatus(up=True, queued=0, subscriptions_count=1)},
        standby=StandbyStatus(machine=name, covered=True),
    )


def survey(*brokers):
    return Survey(found={each.name: each for each in brokers}, admin={each.name: "" for each in brokers})


A, B, C = broker("a", "b"), broker("b", "a", "c"), broker("c", "b")
AWAY = {"c-a": ClientStatus(up=False, queued=0, subscriptions_count=1)}


def test_one_tree_in_which_nothing_is_missing_is_whole():
    assert missing(survey(A, B, C), "abc") == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (survey(A, B), "c does not answer"),
        (survey(A, replace(B, reasons=["link to c is down"]), C), "b: link to c is down"),
        (survey(A, B, replace(C, standby=None)), "c is not covered"),
        (survey(replace(A, standby=StandbyStatus(machine="a", covered=False)), B, C), "a is not covered"),
        (survey(replace(A, clients=AWAY), B, C), "a: client c-a is away"),
        (survey(replace(A, components={"k": ComponentStatus("sum", failed=True)}), B, C), "a: component k has failed"),
        (survey(A, broker("b", "a"), C), "c is linked to b, and b says it is not"),
        (survey(A, broker("b", "a"), broker("c")), "2 of 3 brokers are in one tree"),
        (survey(broker("a", "b", "c"), B, broker("c", "a", "b")), "close a cycle"),
    ],
)
def test_what_is_missing_is_said(found, reason):
    assert [each for each in missing(found, "abc") if reason in each]
