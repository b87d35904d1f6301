"""A publisher that goes on while everything around it is broken, and knows what it has published."""

from __future__ import annotations

import threading

from pleach.client import blocking
from support.live.broker_process import eventually

REGIONS = ("eu", "us", None, 7)  # some have none, or one of another kind
PAUSE_SECONDS = 0.002


class Load:
    """Publishes n = 0, 1, 2, … at one broker until it is stopped."""

    def __init__(self, address: str) -> None:
        self._client = blocking.BlockingClient(address, name="load", connect_timeout=60.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self.count = 0  # all below are published

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self._client.close()

    def _publish(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            region = REGIONS[self.count % len(REGIONS)]
            attributes = {"n": self.count, "price": self.count % 100}
            self._client.publish(attributes | ({} if region is None else {"region": region}), timeout=60.0)
            self.count += 1

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait_for(self, more: int) -> None:
        wanted = self.count + more
        eventually(lambda: self.count >= wanted)

    def matching(self) -> list[int]:
        """What a filter `price >= 50` lets through."""
        return [n for n in range(self.count) if n % 100 >= 50]
