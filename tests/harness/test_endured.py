"""Bounds of a network whose messages took longer than was stated; and when a run on real processes begins."""

import asyncio

import pytest

from pleach.harness.network import LiveNetwork
from pleach.harness.run import LiveRun
from pleach.scenario.load import parse_scenario
from pleach.scenario.stabilise_settings import flight_of, mending_of, stabilisation_of
from pleach.trace import Record, RecordKind
from support.live.recovery_bounds import as_it_was, judged_as, with_delays

SCENARIO = """
name = "three in a row"
routing = "simple"
links = [["a", "b"], ["b", "c"]]
duration = 1.0
stabilise = { kind = "leases", refresh = 0.4, period = 1.2, delay = [0.0, 0.25] }
[latency]
default = 0.1
[[clients]]
id = "p"
broker = "a"
[[clients]]
id = "s"
broker = "c"
subscribe = ["x > 0"]
"""
HOPS = 3
STATED = parse_scenario(SCENARIO)


def fault(scenario=STATED, at=1.0):
    return Record("r", at, "b", 1, RecordKind.FAULT, detail=mending_of(scenario).struck("corrupt table", at))


def seen(kind, at):
    return Record("r", at, "p" if kind is RecordKind.PUBLISH else "s", 1, kind, event="p/1/1")


@pytest.mark.parametrize(
    ("seconds", "bound"),
    [
        (0.0, 2 * 1.2 + HOPS * 0.25),
        (0.3, 2 * 1.2 + HOPS * 0.25),
        (0.6, 2 * 1.2 + 2 * 0.6),
        (2.0, 2 * 2.4 + 2 * 2.0),  # no whole round of renewals comes between two ticks, but between every other two
    ],
)
def test_what_took_no_longer_than_stated_changes_nothing_and_more_counts_as_it_was(seconds, bound):
    slowed = with_delays(STATED, seconds)
    assert stabilisation_of(slowed) == pytest.approx(bound)
    assert as_it_was(fault(), STATED, slowed) == fault(slowed)
    assert (slowed == STATED) == (seconds < 0.375)


def test_deliveries_before_the_fault_do_not_count():
    early = [seen(RecordKind.PUBLISH, 0.0), seen(RecordKind.DELIVER, 0.9), fault()]
    assert judged_as(early, STATED) == early
    late = [seen(RecordKind.PUBLISH, 0.0), fault(), seen(RecordKind.DELIVER, 2.0)]
    assert judged_as(late, STATED) == [late[0], fault(with_delays(STATED, 2.0)), late[2]]
    assert flight_of(with_delays(STATED, 2.0)) == pytest.approx(4.0)


def test_a_run_begins_when_all_clients_are_connected(tmp_path):
    """A link of each takes a tenth of a second each way."""

    async def story():
        async with LiveNetwork(STATED, tmp_path) as network:
            run = LiveRun(STATED, network, seed=1)
            asked_at = asyncio.get_running_loop().time()
            assert run.now == 0.0

            async def look(run):
                return None

            result = await run.go(look)
            return run.began_at - asked_at, result

    took, result = asyncio.run(story())
    assert took >= 2 * 2 * 0.1
    assert result.records[0].at == 0.0
    assert [record.at for record in result.records] == sorted(record.at for record in result.records)
