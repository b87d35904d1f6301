"""What routing saves: the samples make sense, and the judge has two sides."""

import pytest

from pleach.lab.beyond.hops import CONTROL, HOPS, cases, judge, measure
from pleach.lab.experiment import Size, Summary
from pleach.lab.findings import Status
from pleach.scenario.model import Routing


def samples(routing, share=0.5, seed=1):
    return dict(measure({"routing": routing, "brokers": 8, "share": share}, seed))


def test_flooding_takes_every_event_over_every_link_and_needs_no_subscriptions():
    assert samples("flooding") == {HOPS: 7.0, CONTROL: 0.0}


def test_simple_routing_tells_every_broker_of_every_subscription():
    assert samples("simple")[CONTROL] == 4 * 7  # half of the brokers have a subscriber, seven links each


@pytest.mark.parametrize("routing", [r.value for r in Routing if r is not Routing.FLOODING])
def test_every_policy_takes_events_to_the_same_brokers(routing):
    assert samples(routing)[HOPS] == samples("simple")[HOPS] < 7


def test_policies_meet_the_same_workload():
    assert {case["routing"] for case in cases(Size.QUICK)} == {r.value for r in Routing}


def summary(routing, share, mean):
    return Summary({"routing": routing, "share": share}, HOPS, 3, 3, mean, mean, mean, mean, mean, mean, mean, mean)


def test_the_judge_wants_more_saved_where_fewer_want_an_event():
    flooded = [summary("flooding", share, 10.0) for share in (0.1, 1.0)]
    reproduced = judge([*flooded, summary("simple", 0.1, 1.0), summary("simple", 1.0, 6.0)])
    assert reproduced.status is Status.REPRODUCED
    assert "saves 90%" in reproduced.measured
    assert "40% where 100%" in reproduced.measured
    assert judge([*flooded, summary("simple", 0.1, 6.0), summary("simple", 1.0, 1.0)]).status is Status.DIFFERS
