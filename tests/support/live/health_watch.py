"""Somebody who asks a broker for /healthz again and again, and measures how long each answer takes."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from contextlib import closing
from typing import Self

from support.live.broker_process import address

PAUSE_SECONDS = 0.02
ASK_SECONDS_MAX = 10.0


class HealthWatch:
    """A thread of its own: what it measures is the broker, and not the event loop of a test."""

    def __init__(self, admin: str, context: ssl.SSLContext | None = None) -> None:
        """`context`: where the port speaks TLS."""
        self._address = address(admin)
        self._context = context
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def mark(self) -> int:
        """How many answers there have been so far."""
        return len(self.seconds)

    def _watch(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            started = time.monotonic()
            try:
                code = self._ask()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                continue
            self.seconds.append(time.monotonic() - started)
            if code != 200:
                self.failures.append(f"{code}")

    def _ask(self) -> int:
        if self._context is None:
            connection = http.client.HTTPConnection(*self._address, timeout=ASK_SECONDS_MAX)
        else:
            connection = http.client.HTTPSConnection(*self._address, timeout=ASK_SECONDS_MAX, context=self._context)
        with closing(connection):
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            response.read()
            return response.status
