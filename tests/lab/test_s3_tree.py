"""S3's experiments: what is counted is what it says, and judges have two sides."""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.ring.keys import circle
from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from pleach.lab.s3.figures import S3_TREE, judge_area, judge_churn, judge_degrees, judge_hops, judge_scale, write_churn
from pleach.lab.s3.overlays import (
    ChangeReach,
    ReferenceOverlay,
    RendezvousOverlay,
    SettledRing,
    change,
    changed_links,
    degrees,
    depths,
    joined,
    path_up,
)
from pleach.lab.s3.tree import measure
from support.lab.made_up_summaries import summarised

#        1
#      ┌─┴─┐
#      2   3
#     ┌┴┐
#     4 5
TREE = {2: 1, 3: 1, 4: 2, 5: 2}
TREES = [{"part": "tree", "scheme": s, "bits": 8, "hosts": 40, "changes": 30} for s in ("degree 3", "rendezvous")]


def ring(count, bits=8, seed=1):
    return SettledRing(circle(bits), Random(seed).sample(range(1 << bits), count))


# Counting -------------------------------------------------------------------------------------------------------


def test_a_leaf_that_comes_concerns_itself_and_its_parent():
    assert change(TREE, TREE | {6: 3}) == ChangeReach(ends=2, area=2)


def test_the_area_has_the_ways_between_the_ends():
    after = {2: 1, 3: 1, 4: 3, 5: 2}
    assert changed_links(TREE, after) == [frozenset((2, 4)), frozenset((3, 4))]
    assert change(TREE, after) == ChangeReach(ends=3, area=4)  # 4–3–1–2
    assert joined(TREE, {4, 5}) == {4, 2, 5}
    assert joined(TREE, set()) == set()


def test_nothing_changed_is_no_area():
    assert change(TREE, dict(TREE)) == ChangeReach(0, 0)


def test_a_link_that_changes_its_direction_stays():
    assert changed_links({2: 1}, {1: 2}) == []


def test_degrees_and_depths():
    assert degrees(TREE) == {1: 2, 2: 3, 3: 1, 4: 1, 5: 1}
    assert depths(TREE) == {1: 0, 2: 1, 3: 1, 4: 2, 5: 2}


# Rings that have settled --------------------------------------------------------------------------------------------


def test_each_hop_comes_nearer_and_there_are_few():
    hosts = ring(60)
    for host in hosts.hosts:
        for key in range(0, 256, 5):
            assert hosts.hops(host, key) <= 8
            if hosts.owner(key) != host:
                following = hosts.next_hop(host, key)
                is_last = following == hosts.owner(key)
                assert is_last or hosts.circle.distance(following, key) < hosts.circle.distance(host, key)


@pytest.mark.parametrize("make", [lambda r: ReferenceOverlay(r, 3), RendezvousOverlay])
def test_an_overlay_is_a_tree_through_all_changes(make):
    hosts, random = ring(20), Random(2)
    overlay = make(hosts)
    for _ in range(60):
        overlay.come(random.choice([key for key in range(256) if key not in hosts.hosts]))
        overlay.go(random.choice(hosts.hosts))
        assert sorted({*overlay.parents} | {*overlay.parents.values()}) == hosts.hosts
        assert len(overlay.parents) == len(hosts.hosts) - 1
        assert {path_up(overlay.parents, host)[-1] for host in hosts.hosts} == {hosts.owner(128)}


def test_s3_5_all_join_again_when_the_root_of_a_rendezvous_scheme_goes():
    hosts = ring(30)
    overlay = RendezvousOverlay(hosts)
    assert overlay.go(hosts.owner(128)) == 28
    leaf = next(host for host in hosts.hosts if host not in overlay.parents.values())
    assert overlay.go(leaf) == 0


@pytest.mark.parametrize("case", TREES, ids=lambda case: case["scheme"])
def test_samples_make_sense(case):
    samples = {}
    for metric, value in measure(case, 0):
        samples.setdefault(metric, []).append(value)
    assert len(samples["area connect"]) == len(samples["messages disconnect"]) == 30
    areas, contacted = samples["area connect"], samples["contacted connect"]
    assert all(area > others for area, others in zip(areas, contacted, strict=True))
    assert 0.5 < sum(samples[f"share of degree {degree}"][0] for degree in (1, 2, 3)) <= 1.0
    assert (samples["degree max"] == [3.0]) == (case["scheme"] == "degree 3")


def test_the_protocol_makes_the_tree_and_finds_owners():
    ring_samples = list(measure({"part": "ring", "bits": 32, "hosts": 30}, 0))
    of = {metric: [s.value for s in ring_samples if s.metric == metric] for metric in {s.metric for s in ring_samples}}
    assert of["wrong trees"] == [0.0]
    assert of["look-ups astray"] == [0.0, 0.0]
    assert 1.0 < sum(of["hops"]) / len(of["hops"]) < 4.0
    churned = dict(measure({"part": "churn", "bits": 8, "hosts": 20, "operations": 20}, 0))
    assert churned["degree max"] == 3.0
    assert churned["operations"] >= 20


# Judges -------------------------------------------------------------------------------------------------------------

AS_PUBLISHED = {
    "share of degree 1": 0.45,
    "share of degree 2": 0.1,
    "share of degree 3": 0.45,
    "degree max": 3.0,
    "area connect": 3.0,
    "area disconnect": 3.4,
    "contacted connect": 2.2,
    "contacted disconnect": 2.5,
    "messages connect": 30.0,
    "messages disconnect": 30.0,
    "share above 4": 0.0,
    "share above 8": 0.0,
    "depth": 5.0,
    "hops": 2.0,
    "hops iterative": 2.0,
    "look-ups astray": 0.0,
    "wrong trees": 0.0,
    "seconds to settle": 3.0,
    "operations": 3400.0,
}


def judged(judge, rendezvous_max=30.0, **means):
    def of_case(case):
        given = AS_PUBLISHED | means
        return given | ({"degree max": rendezvous_max} if case.get("scheme") == "rendezvous" else {})

    return judge(summarised(S3_TREE, Size.USUAL, of_case))


@pytest.mark.parametrize("judge", [judge_degrees, judge_area, judge_scale, judge_hops, judge_churn])
def test_what_is_published_is_reproduced(judge):
    assert judged(judge).status is Status.REPRODUCED


@pytest.mark.parametrize(
    ("judge", "wrong"),
    [
        (judge_degrees, {"degree max": 4.0}),
        (judge_degrees, {"share of degree 1": 0.1, "share of degree 3": 0.2}),
        (judge_area, {"area disconnect": 9.0}),
        (judge_scale, {"degree max": 4.0}),
        (judge_scale, {"rendezvous_max": 3.0}),
        (judge_hops, {"hops": 12.0}),
        (judge_hops, {"look-ups astray": 1.0}),
        (judge_churn, {"wrong trees": 1.0}),
        (judge_churn, {"degree max": 4.0}),
    ],
)
def test_what_is_otherwise_refutes_it(judge, wrong):
    assert judged(judge, **wrong).status is Status.REFUTED


def test_more_hosts_contacted_than_the_paper_says_differs():
    assert judged(judge_area, **{"contacted disconnect": 4.0}).status is Status.DIFFERS


def test_more_neighbours_than_the_degree_differs():
    def of_case(case):
        most = {"rendezvous": 30.0, "degree 4": 5.0}.get(case.get("scheme"), 3.0)
        return AS_PUBLISHED | {"degree max": most}

    found = judge_scale(summarised(S3_TREE, Size.USUAL, of_case))
    assert found.status is Status.DIFFERS
    assert "up to 5" in found.measured


def test_the_table_says_how_many_there_were():
    page = write_churn(summarised(S3_TREE, Size.USUAL, lambda _case: AS_PUBLISHED))
    assert "| joins, leaves and failures | 10,200 |" in page
