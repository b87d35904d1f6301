"""`pleach bench forward`: what it reports, and that it leaves nothing running. Other systems are not needed here."""

from __future__ import annotations

import signal
import sys
import time

import msgspec
import pytest

from pleach.bench import BENCHES, WITH_PEERS, forward
from pleach.bench.systems.processes import free_ports, read_line, server, wait_for_port
from pleach.bench.systems.registry import OURS, PEERS, SYSTEMS
from pleach.bench.systems.system import EVENT_BYTES, SUBSCRIBERS, Case, ReceiveMeter, WorkerResult, WorkerTask, payload
from pleach.errors import LiveError

TINY = forward.ForwardSize(dict.fromkeys(Case, 100), 2, 100)
CHATTY = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]


def meter(events=4, warm_up=1, rate=0, case=Case.ONE):
    return ReceiveMeter(WorkerTask(OURS.name, case, "nowhere", events, warm_up, rate), lambda: None, lambda: None)


@pytest.mark.parametrize("case", [Case.ONE, Case.CHAIN, Case.FILTERS])
def test_pleach_alone_gives_one_rate_per_case(case):
    (measurement,) = forward.measure(case, [OURS], TINY)
    assert measurement.case == f"{case}, Pleach, in memory"
    assert measurement.value > 0
    assert measurement.bar is None


def test_latencies_are_reported_as_p50_and_p99_in_order():
    p50, p99 = forward.latencies([OURS], TINY)
    assert "p50" in p50.case
    assert "p99" in p99.case
    assert 0 < p50.value <= p99.value


def test_a_ratio_below_its_bar_is_not_ok():
    nats = PEERS[0]
    missed = forward._compared(Case.ONE, nats, [10.0, 40.0, 30.0], [100.0, 100.0, 100.0])
    assert (missed.ratio, missed.bar, missed.ok) == (0.3, 0.5, False)
    reached = forward._compared(Case.ONE, nats, [50.0], [100.0])
    assert reached.ok
    assert forward._compared(Case.FAN_OUT, nats, [1.0], [100.0]).ok  # no bar


def test_every_bar_is_of_a_system_that_has_the_case():
    for case, name in forward.BARS:
        assert case in SYSTEMS[name].cases


def test_a_peer_that_is_not_installed_is_skipped_and_said(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert forward.is_skipped(PEERS[0])
    assert "nats-server with nats-py is skipped" in capsys.readouterr().err


def test_the_clock_runs_from_the_first_publish_to_the_last_event():
    """Also over what was received before the first event was handed out; not over the warm-up."""
    counted = meter()
    made = time.monotonic() - 5.0
    stamped = int(made * 1e9).to_bytes(8)
    assert not counted.note((0).to_bytes(8))
    assert [counted.note(stamped) for _ in range(4)] == [False, False, False, True]
    outcome = counted.outcome()
    assert outcome.received == 4
    assert 5.0 <= outcome.seconds <= time.monotonic() - made + 0.001


def test_every_subscriber_counts():
    counted = meter(events=2, warm_up=1, case=Case.FAN_OUT)
    answers = [counted.note(b"") for _ in range(3 * SUBSCRIBERS[Case.FAN_OUT])]
    assert answers.index(True) == len(answers) - 1


def test_latency_is_since_the_payload_was_made():
    counted = meter(events=1, rate=1_000)
    before = time.monotonic()
    stamped = payload()
    assert len(stamped) == EVENT_BYTES
    counted.note(stamped)
    counted.note(stamped)
    (latency,) = counted.outcome().latencies
    assert 0 < latency <= time.monotonic() - before


def test_it_is_said_when_the_warm_up_is_there():
    said = []
    task = WorkerTask(OURS.name, Case.FAN_OUT, "nowhere", 5, 2)
    counted = ReceiveMeter(task, lambda: None, lambda: said.append(counted.count))
    for _ in range(7 * SUBSCRIBERS[Case.FAN_OUT]):
        counted.note(b"")
    assert said == [2 * SUBSCRIBERS[Case.FAN_OUT]]


def test_nothing_received_is_a_rate_of_nothing():
    assert meter().outcome() == WorkerResult(0, 0.0)
    assert WorkerResult(0, 0.0).rate == 0


def test_a_server_is_stopped_when_the_block_fails(tmp_path):
    def interrupted():
        with server(CHATTY, tmp_path / "log") as process:
            started.append(process)
            assert read_line(process, "it") == b"here\n"
            raise KeyboardInterrupt

    started = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (process,) = started
    assert process.returncode == -signal.SIGTERM


def test_a_server_that_ends_at_once_is_an_error(tmp_path):
    (port,) = free_ports(1)
    with server([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log") as process:
        with pytest.raises(LiveError, match="ended with 3"):
            wait_for_port(port, process, "it")
        with pytest.raises(LiveError, match="it printed nothing"):
            read_line(process, "it")


def test_tasks_travel_to_the_workers_as_json():
    task = WorkerTask(OURS.name, Case.FILTERS, "127.0.0.1:1", 10, 2)
    assert msgspec.json.decode(msgspec.json.encode(task), type=WorkerTask) == task


def test_it_is_registered_with_and_without_peers():
    assert "forward" in BENCHES
    assert "forward" in WITH_PEERS
