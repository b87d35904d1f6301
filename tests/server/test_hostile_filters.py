"""Filters that cost more than their text lets one expect, against real brokers: nobody else notices them."""

import socket
import threading
import time
from contextlib import contextmanager

import msgspec
import pytest

from pleach.core.effects import Observed
from pleach.core.links.frames import Data, Hello, encode_frame
from pleach.core.messages import Install, Layer, Subscribe, wire_tag
from support.live.broker_process import RawClient, address, clients, eventually, processes
from support.live.hostile import GROWTH_BYTES_MAX, STALL_SECONDS_EVER, STALL_SECONDS_MAX, resident_bytes
from support.live.hostile_filter_acts import long_ends, long_pattern, many_comparisons, pairs
from support.live.hostile_wire import raw_messages

QUIET_PROBES = 20
COSTLY = {
    "row 3, as it was": long_ends(400_000),
    "row 3, within the text": long_ends(7_000),
    "row 4, as it was": long_pattern(53_000),
    "row 4, within the text": long_pattern(7_000),
    "comparisons": many_comparisons(64),
}


@pytest.fixture
def broker(tmp_path):
    with processes() as start:
        yield start("b", tmp_path, "--neighbour", "a", durable=True)


def probe(broker):
    started = time.monotonic()
    assert broker.get("/healthz")[0] == 200
    return time.monotonic() - started


def contention():
    """By how much other processes slow this machine down at the moment."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.1:
        pass
    return (time.monotonic() - wall) / 0.1


@contextmanager
def unnoticed(broker):
    """Within, the broker answers in time, does not grow, and does not end. The machine's noise is measured first."""
    noise, slower = max(probe(broker) for _ in range(QUIET_PROBES)), contention()
    before, longest, over = resident_bytes(broker.process.pid), [0.0], threading.Event()

    def watch():
        while not over.is_set():
            longest.append(probe(broker))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
    allowed = STALL_SECONDS_MAX * max(slower, contention()) + 3 * noise
    assert max(longest) <= min(allowed, STALL_SECONDS_EVER)
    assert resident_bytes(broker.process.pid) - before <= GROWTH_BYTES_MAX
    assert broker.process.poll() is None


def tell(door, name, *frames):
    """Say it and listen until the broker hangs up, or has nothing more to say for a while."""
    with socket.create_connection(address(door), timeout=1.0) as connection:
        try:
            connection.sendall(encode_frame(Hello(name, time.time_ns(), 0, 0, 1)) + b"".join(frames))
            while connection.recv(65_536):
                pass
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_costly_filter_of_a_client_stalls_nobody_now_or_after_a_restart(broker, text):
    with clients(RawClient("calm", broker)) as (calm,), unnoticed(broker):
        for n in range(5):
            asked = [wire_tag(Subscribe), "s", text, False]
            tell(broker.ready["client"], f"hostile-{n}", *raw_messages(asked))
        calm.publish(n=1)
        eventually(lambda: calm.seen(Observed.PUBLISH_ACK), pumping=[calm])
    broker.kill()
    started = time.monotonic()
    broker.start()
    assert time.monotonic() - started < 10.0
    assert broker.get("/healthz")[0] == 200


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_costly_filter_of_a_neighbour_stalls_nobody(broker, text):
    with unnoticed(broker):
        for n in range(3):
            install = [wire_tag(Install), Layer.SUBSCRIPTIONS, n + 1, "x", text]
            tell(broker.ready["peer"], "a", encode_frame(Data(1, msgspec.msgpack.encode(install))))


@pytest.mark.parametrize("size", [900_000, 7_500], ids=["beyond the budget", "within it"])
def test_filters_that_come_and_go_leave_nothing_in_caches(broker, size):
    with unnoticed(broker):
        for n in range(10):
            tell(broker.ready["client"], f"hostile-{n}", *pairs(size, 20, seed=n))
