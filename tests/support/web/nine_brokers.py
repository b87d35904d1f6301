"""Nine brokers in three zones, as processes, with clients that keep events flowing: what a dashboard looks at."""

import asyncio
import os
import threading
from contextlib import contextmanager

import pleach
from support.live.broker_process import processes

LINKS = (
    ("fra1", "fra2"), ("fra1", "fra3"), ("iad1", "iad2"), ("iad1", "iad3"),
    ("nrt1", "nrt2"), ("nrt1", "nrt3"), ("fra1", "iad1"), ("iad1", "nrt1"),
)  # fmt: skip
PUBLISH_SECONDS = 0.02


@contextmanager
def nine_brokers(place, links=LINKS):
    """Brokers by name; those that are started later with `start` are gone afterwards, too."""
    with processes() as start:
        brokers = {}
        for name in sorted({name for link in links for name in link}):
            dialled = [b if a == name else a for a, b in links if name in (a, b)]
            peers = [f"--peer={other}={brokers[other].ready['peer']}" for other in dialled if other in brokers]
            others = [f"--neighbour={other}" for other in dialled if other not in brokers]
            zone = f"--zone={name.rstrip('0123456789')}"
            brokers[name] = start(name, place, *peers, *others, zone, "--heartbeat=0.5", durable=True)
        yield brokers, start


class Load:
    """Clients in a thread of their own: one at each broker, which publishes and subscribes; and idle ones by name."""

    def __init__(self, brokers, names=()):
        self._brokers = brokers
        self._names = names
        self._stop = threading.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(float(os.environ.get("PLEACH_PATIENCE", "60")))
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)

    async def _run(self):
        async with asyncio.TaskGroup() as group:
            waiting = [asyncio.Event() for _ in self._brokers]
            for (name, broker), ready in zip(sorted(self._brokers.items()), waiting, strict=True):
                group.create_task(self._client(name, broker.ready["client"], ready))
            first = self._brokers[min(self._brokers)].ready["client"]
            for name in self._names:
                waiting.append(asyncio.Event())
                group.create_task(self._idle(name, first, waiting[-1]))
            for ready in waiting:
                await ready.wait()
            self._started.set()

    async def _idle(self, name, address, ready):
        async with pleach.connect(f"pleach://{address}", name=name, connect_timeout=60.0) as client:
            await client.subscribe(
                f"topic = '{name.replace(chr(39), chr(39) * 2)}'", name=name, callback=lambda _event: None
            )
            ready.set()
            while not self._stop.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.2)

    async def _client(self, name, address, ready):
        async with pleach.connect(f"pleach://{address}", name=f"desk-{name}", connect_timeout=60.0) as client:
            await client.subscribe("topic = 'orders' AND price > 40", name="orders", callback=lambda _event: None)
            ready.set()
            count = 0
            while not self._stop.is_set():
                count += 1
                await client.publish({"topic": "orders" if count % 3 else "news", "price": count % 100})
                await asyncio.sleep(PUBLISH_SECONDS)
