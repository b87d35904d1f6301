"""Zenoh: routers as processes of their own, with its Python library. A chain is three routers that dial each other."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import TOPIC, Addresses, Case, ReceiveMeter, Starter, WorkerTask, payloads


class Zenoh:
    name = "zenoh with eclipse-zenoh"
    cases = (Case.ONE, Case.CHAIN, Case.FAN_OUT)
    pace = 1.0

    def missing(self) -> str:
        return "" if find_spec("zenoh") else "eclipse-zenoh"

    @contextmanager
    def serve(self, case: Case, directory: Path) -> Iterator[Addresses]:
        ports = free_ports(3 if case is Case.CHAIN else 1)
        with ExitStack() as stack:
            for number, port in enumerate(ports):
                command = [sys.executable, "-m", __name__, *map(str, (port, *ports[:number][-1:]))]
                process = stack.enter_context(server(command, directory / f"zenoh{number}.log"))
                wait_for_port(port, process, "a zenoh router")
            yield Addresses(_endpoint(ports[0]), _endpoint(ports[-1]))

    def publish(self, task: WorkerTask, start: Starter) -> None:
        import zenoh  # noqa: PLC0415 - only where it is measured

        with _session("client", connect=task.address) as session:
            # Reliable as the others: otherwise a publisher that is faster than its subscriber drops events.
            publisher = session.declare_publisher(TOPIC, congestion_control=zenoh.CongestionControl.BLOCK)
            for events in task.phases:
                start()
                for body in payloads(task.rate, events):
                    publisher.put(body)

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None:
        done = threading.Event()
        alone = threading.Lock()  # the library calls from threads of its own, one for each session

        def on_sample(sample: Any) -> None:
            with alone:
                if meter.note(sample.payload.to_bytes()):
                    done.set()

        with ExitStack() as stack:
            for _ in range(task.subscribers):
                session = stack.enter_context(_session("client", connect=task.address))
                session.declare_subscriber(TOPIC, on_sample)
            meter.ready()
            done.wait()


def _endpoint(port: int) -> str:
    return f"tcp/{LOOPBACK}:{port}"


def _session(mode: str, *, connect: str = "", listen: str = "") -> Any:
    import zenoh  # noqa: PLC0415

    config = zenoh.Config()
    settings = {
        "mode": mode,
        "scouting/multicast/enabled": False,  # no discovery
        "connect/endpoints": [connect] if connect else [],
        "listen/endpoints": [listen] if listen else [],
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def _route(port: int, upstream: int | None = None) -> None:
    """A router until SIGTERM; its work is done in the library's own threads."""
    with _session("router", connect=_endpoint(upstream) if upstream else "", listen=_endpoint(port)):
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _route(*map(int, sys.argv[1:]))
