"""S0 Fig. 12–16: samples that make sense, and judges with two sides."""

from __future__ import annotations

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import Forward, Install, Layer, encode
from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from pleach.lab.s0.default_scenario import (
    JOINING_ELSEWHERE,
    JOINING_MESSAGES,
    KB,
    KINDS,
    REMOVAL_KB,
    TYPES,
    attributes_of,
    scenario_of,
    wanted_text,
)
from pleach.lab.s0.figures import PRIMITIVES, judge_brokers, judge_gaps, judge_removal, judge_subscriptions, judge_types
from pleach.lab.s0.primitives import DEFAULT, measure
from support.lab.made_up_summaries import summarised

SMALL = {**DEFAULT, "brokers": 10, "swaps": 4}


def samples(seed=1, **changes):
    return dict(measure({**SMALL, **changes}, seed))


# The scenario -------------------------------------------------------------------------------------------------


def test_events_and_subscriptions_are_as_large_as_in_s0():
    """0.76 KB and 0.77 KB."""
    wanted: Filter = parse_filter(wanted_text(700))
    event = Event(EventId("c17", 0, 12), attributes_of(700))
    assert len(encode(Forward(event))) / KB == pytest.approx(0.76, abs=0.03)
    assert len(encode(Install(Layer.SUBSCRIPTIONS, 1, "", wanted))) / KB == pytest.approx(0.77, abs=0.03)


def test_a_subscription_takes_one_event_in_a_thousand():
    wanted = parse_filter(wanted_text(321))
    assert [kind for kind in range(KINDS) if wanted.matches(attributes_of(kind))] == [321]
    assert pytest.approx(0.001, rel=0.03) == 1 / KINDS


def test_half_of_the_brokers_have_no_clients_and_more_subscriptions_include_fewer():
    few, many = (scenario_of({**SMALL, "brokers": 40, "subscriptions": count}, 2) for count in (3, 9))
    assert len({client.broker for client in few.clients}) <= 20
    assert few.links == many.links
    for client, same in zip(few.clients, many.clients, strict=True):
        assert client.broker == same.broker
        assert same.subscribe[:3] == client.subscribe


# SwapLink -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["corrected", "published"])
@pytest.mark.parametrize("knowledge", ["complete", "partial"])
def test_a_swap_takes_twelve_messages(variant, knowledge):
    found = samples(variant=variant, knowledge=knowledge)
    assert found["messages"] == 12
    assert found["KB"] == pytest.approx(sum(found[f"KB {label}"] for label in TYPES))


def test_where_no_subscriptions_travel_it_takes_a_quarter_of_a_kilobyte_at_most():
    assert samples(knowledge="complete", subscriptions=50)["KB without pub"] < 0.25


def test_where_everything_is_flooded_a_swap_floods_nothing_besides_also_for_events_that_meet_several():
    found = samples(knowledge="complete", variant="published", gap_ms=20, swaps=20, brokers=20)
    assert found["additional events"] == 0


def test_subscriptions_are_nearly_all_of_the_cost_and_each_is_told_once():
    one, ten = (samples(subscriptions=count) for count in (1, 10))
    assert ten["KB swap"] > 0.99 * ten["KB without pub"]
    assert 5 < ten["KB swap"] / one["KB swap"] <= 10


def test_the_correction_sends_copies_and_the_published_protocol_none():
    published, corrected = (samples(variant=v, gap_ms=5, subscriptions=20) for v in ("published", "corrected"))
    assert 0 < published["additional events"] < corrected["additional events"]


# Joining and leaving ------------------------------------------------------------------------------------------


def test_a_broker_that_joins_is_no_concern_of_others():
    found = samples()
    assert found[JOINING_MESSAGES] == 2
    assert found[JOINING_ELSEWHERE] == 0


def test_leaving_costs_little_but_the_subscriptions():
    none, some, more = (samples(brokers=16, swaps=1, subscriptions=count)[REMOVAL_KB] for count in (0, 10, 20))
    assert 0 < none < 0.3
    assert more - some == pytest.approx(some - none, rel=0.05)
    assert more > some > none


# Judges -------------------------------------------------------------------------------------------------------

TABLE_KB = 1000.0


def as_published(case):
    """What S0 says, for our cases."""
    bare = {"lock": 0.05, "lockAck": 0.03, "open": 0.01, "close": 0.05, "other": 0.0}
    told = TABLE_KB * min(100, case["subscriptions"]) / 10 * min(120, case["brokers"]) / 100
    pub = 750 / case["gap_ms"] * (1.5 if case["variant"] == "corrected" else 1.0)
    if case["knowledge"] == "complete":
        told, pub = 0.05, 0.0
    parts = {**bare, "swap": told, "pub": pub}
    total = sum(parts.values())
    leaving = {REMOVAL_KB: 0.11 + 1.1 * case["subscriptions"], JOINING_ELSEWHERE: 0}
    sizes = {f"KB {label}": size for label, size in parts.items()}
    return {"messages": 12, "KB": total, "KB without pub": total - pub, **sizes, **leaving}


def judged(judge, change=lambda case, means: means):
    return judge(summarised(PRIMITIVES, Size.USUAL, lambda case: change(case, as_published(case))))


@pytest.mark.parametrize("judge", [judge_types, judge_subscriptions, judge_brokers, judge_gaps, judge_removal])
def test_what_is_as_published_is_reproduced(judge):
    found = judged(judge)
    assert found.status is Status.REPRODUCED, found.measured


def scaled(metric, factor, **where):
    """A change of one metric in some cases."""

    def change(case, means):
        if metric in means and all(case[key] == value for key, value in where.items()):
            return {**means, metric: means[metric] * factor(case)}
        return means

    return change


def test_other_sizes_differ_and_a_quarter_of_a_kilobyte_is_a_bound():
    smaller = judged(judge_types, lambda case, means: {metric: size * 0.3 for metric, size in means.items()})
    assert smaller.status is Status.DIFFERS
    assert "less than the megabyte" in smaller.measured
    assert judged(judge_types, scaled("KB", lambda _: 3.0, knowledge="complete")).status is Status.REFUTED
    assert judged(judge_types, scaled("KB swap", lambda _: 0.9, knowledge="partial")).status is Status.REFUTED


def test_costs_that_do_not_level_off_differ_and_that_do_not_grow_refute():
    on_and_on = scaled("KB swap", lambda case: max(1.0, case["subscriptions"] / 100), knowledge="partial")
    assert judged(judge_subscriptions, on_and_on).status is Status.DIFFERS
    assert judged(judge_subscriptions, lambda _, means: {**means, "KB swap": 5.0}).status is Status.REFUTED
    telling = scaled("KB without pub", lambda case: case["subscriptions"], knowledge="complete")
    assert judged(judge_subscriptions, telling).status is Status.REFUTED


def test_where_no_point_lies_far_enough_out_nothing_is_said_of_how_the_costs_level_off():
    found = judge_subscriptions(summarised(PRIMITIVES, Size.QUICK, as_published))
    assert found.status is Status.OPEN
    assert "constant within" not in found.measured


def test_costs_by_brokers():
    squared = scaled("KB swap", lambda case: case["brokers"] ** 2, knowledge="partial")
    assert judged(judge_brokers, squared).status is Status.DIFFERS
    falling = scaled("KB swap", lambda case: case["brokers"] ** -2, knowledge="partial")
    assert judged(judge_brokers, falling).status is Status.REFUTED


def test_additional_events_have_to_fall_and_to_be_few():
    assert judged(judge_gaps, scaled("KB pub", lambda case: case["gap_ms"] ** 2)).status is Status.REFUTED
    assert judged(judge_gaps, scaled("KB pub", lambda _: 500.0)).status is Status.DIFFERS


def test_leaving_has_to_be_linear_and_joining_silent():
    curved = scaled(REMOVAL_KB, lambda case: case["subscriptions"] ** 2)
    assert judged(judge_removal, curved).status is Status.REFUTED
    assert judged(judge_removal, lambda _, means: {**means, JOINING_ELSEWHERE: 1}).status is Status.REFUTED
    larger = judged(judge_removal, lambda _, means: {**means, REMOVAL_KB: means[REMOVAL_KB] + 1})
    assert larger.status is Status.DIFFERS


def test_what_leaving_costs_with_ten_thousand_subscriptions_is_extrapolated_and_judged():
    assert "extrapolated to 10,000: 10.7 MB" in judged(judge_removal).measured
    smaller = judged(judge_removal, scaled(REMOVAL_KB, lambda _: 0.5))
    assert smaller.status is Status.DIFFERS
    assert "extrapolated to 10,000: 5.4 MB" in smaller.measured
    assert smaller.names == ("more than 10 MB with 10,000 subscriptions per client",)
