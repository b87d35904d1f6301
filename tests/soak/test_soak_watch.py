"""What is watched: memory, files, disk, latency; and when that counts as growth."""

import asyncio
import os
import sys

import pytest
from msgspec.structs import replace

from pleach.errors import ClientError
from pleach.harness.live_clients import LiveClients
from pleach.harness.live_machine import LiveMachine
from pleach.server.bugs import watched
from pleach.soak import actions
from pleach.soak.actions import busy_with
from pleach.soak.latency import LatencyMeter
from pleach.soak.log import Flow, Minute, Usage
from pleach.soak.settings import SoakSettings, scenario_of
from pleach.soak.watch import LogReader, ended_by_themselves, growths, memory_of, tell_of_bugs, usage

FLOW = Flow(published=0, deliveries=0, waiting=0, oldest=0.0, remembered=0, found={}, latency_p50=0.01, latency_p99=0.1)
USED = Usage(machines=9, processes=10, memory_bytes=500_000_000, files=300, disk_bytes=90_000_000)


def minutes(count=40, **figures):
    """`memory_bytes=[…]`: as many values of each as there are minutes."""
    return [minute({name: values[n] for name, values in figures.items()}) for n in range(count)]


def minute(figures):
    flow = replace(FLOW, **{name: value for name, value in figures.items() if name in FLOW.__struct_fields__})
    used = replace(USED, **{name: value for name, value in figures.items() if name in USED.__struct_fields__})
    return Minute(at=0.0, flow=flow, used=used, brokers=9, own_memory_bytes=200_000_000)


def growing(found):
    return {growth.what for growth in growths(found) if growth.is_growing}


def test_what_stays_does_not_grow():
    assert not growing(minutes())


def test_memory_that_rises_by_more_than_a_tenth_grows():
    rising = [500_000_000 + 5_000_000 * n for n in range(40)]
    assert growing(minutes(memory_bytes=rising)) == {"memory per process (MB)"}


def test_more_processes_may_take_more():
    counts = [10 + n for n in range(40)]
    assert not growing(
        minutes(processes=counts, memory_bytes=[n * 50_000_000 for n in counts], files=[n * 30 for n in counts])
    )


def test_a_tenth_of_little_is_noise():
    assert not growing(minutes(latency_p50=[0.001 + 0.0005 * n for n in range(40)]))


def test_what_was_nothing_at_first_may_grow():
    assert growing(minutes(latency_p50=[0.0] * 10 + [5.0] * 30)) == {"latency p50 (ms)"}


def test_the_first_minutes_and_the_last_ones_are_compared_not_the_peak_between():
    assert not growing(minutes(disk_bytes=[90_000_000] * 15 + [900_000_000] * 10 + [90_000_000] * 15))


def test_a_short_run_says_nothing():
    assert growths(minutes(7)) == []


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 1.0])
def test_quantiles_are_at_most_a_tenth_too_high(share):
    meter, values = LatencyMeter(), [0.001 * n for n in range(1, 1_001)]
    for value in values:
        meter.add(value)
    true = values[max(0, round(share * len(values)) - 1)]
    assert true <= meter.quantile(share) * 1.0001 <= true * 1.11


def test_nothing_has_no_latency():
    meter = LatencyMeter()
    assert meter.quantile(0.99) == 0.0
    meter.add(5.0)
    meter.clear()
    assert meter.quantile(0.99) == 0.0


def test_this_process_has_memory_and_one_that_is_gone_has_none():
    assert memory_of(os.getpid()) > 1_000_000
    assert memory_of(2**22 + 1) == 0


@pytest.mark.live
def test_a_machine_uses_what_its_processes_and_its_folder_do(tmp_path):
    asyncio.run(check_usage(LiveMachine("m", tmp_path / "m")))


async def check_usage(machine):
    machine.folder.mkdir()
    (machine.folder / "file").write_bytes(b"x" * 100_000)
    await machine.start([sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"], {})
    try:
        used = usage([machine])
        assert (used.processes, used.disk_bytes >= 100_000) == (1, True)
        assert used.memory_bytes > 1_000_000
        assert used.files >= 3
    finally:
        await machine.kill_all()
    assert usage([machine]).processes == 0


@pytest.mark.live
def test_a_process_that_ends_is_told_whatever_is_done_to_other_machines(tmp_path):
    asyncio.run(check_ended({name: LiveMachine(name, tmp_path / name) for name in "ab"}))


async def check_ended(machines):
    assert [*ended_by_themselves(machines, ())] == [], "they have not started yet"
    await machines["a"].start([sys.executable, "-c", "print('here'); raise SystemExit(3)"], {})
    assert await machines["a"].ended() == 3
    homes = {"c": "a"}
    for under_way in ([], [actions.Settle()], [actions.Upgrade(machine="b"), actions.Kill(broker="b", seconds=1.0)]):
        (told,) = ended_by_themselves(machines, busy_with(under_way, homes))
        assert "the process of a has ended with 3" in told
    for under_way in (actions.PowerCut(machine="a", seconds=1.0), actions.Leave(broker="c")):
        assert [*ended_by_themselves(machines, busy_with([under_way], homes))] == []


def test_what_nobody_catches_in_the_soak_itself_is_told():
    told = []

    async def fails(error):
        raise error

    async def scenario():
        tell_of_bugs(asyncio.get_running_loop(), told.append)
        clients = LiveClients(scenario_of(SoakSettings()), None, lambda _client, _seen: None)
        requests = [clients._request(fails(error)) for error in (KeyError("x"), ClientError("refused"))]
        await asyncio.wait([*requests, watched(fails(ConnectionResetError()))])
        await asyncio.sleep(0)

    asyncio.run(scenario())
    (what,) = told
    assert what.endswith("KeyError: 'x'")


def test_bugs_in_logs_are_told_once(tmp_path):
    machine = LiveMachine("m", tmp_path / "m")
    reader = LogReader(tmp_path)
    assert reader.bugs() == []
    machine.log.write_text("all is well\nCRITICAL a bug ends this process: x\n")
    assert reader.bugs() == ["m: CRITICAL a bug ends this process: x"]
    assert reader.bugs() == []


def test_a_bug_of_a_machine_that_was_destroyed_since_is_told(tmp_path):
    machine = LiveMachine("m", tmp_path / "m")
    machine.log.write_text("Traceback (most recent call last):\n")
    asyncio.run(machine.destroy())
    assert LogReader(tmp_path).bugs() == ["m: Traceback (most recent call last):"]


def test_a_line_that_is_just_being_written_is_read_when_it_is_complete(tmp_path):
    reader, log = LogReader(tmp_path), tmp_path / "m.log"
    log.write_text("well\nTraceback (most rec")
    assert reader.bugs() == []
    log.write_text("well\nTraceback (most recent call last):\n")
    assert reader.bugs() == ["m: Traceback (most recent call last):"]
