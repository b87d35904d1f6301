"""Calls of the client library that wait for the broker's answer, each by its kind and the name that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pleach.core.messages import Advertised, Layer, Message, Subscribed, Unadvertised, Unsubscribed
from pleach.errors import AdvertiseRefusedError, ClientError, RefusedError, SubscribeRefusedError

REFUSALS: dict[type[Message], type[RefusedError]] = {
    Subscribed: SubscribeRefusedError,
    Unsubscribed: SubscribeRefusedError,
    Advertised: AdvertiseRefusedError,
    Unadvertised: AdvertiseRefusedError,
}
LAYERS: dict[type[RefusedError], Layer] = {
    SubscribeRefusedError: Layer.SUBSCRIPTIONS,
    AdvertiseRefusedError: Layer.ADVERTISEMENTS,
}


class PendingRequests:
    """Whoever asks for the same while the first still waits gets the same answer."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[type[Message], str], asyncio.Future[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def futures(self) -> Sequence[asyncio.Future[None]]:
        return list(self._waiting.values())

    def is_waiting(self, kind: type[Message], name: str) -> bool:
        return (kind, name) in self._waiting

    def asked(self, kind: type[Message], name: str) -> asyncio.Future[None]:
        """What brings the answer; to be shielded, as others may wait for it too."""
        future = self._waiting.get((kind, name))
        if future is None:
            future = self._waiting[kind, name] = asyncio.get_running_loop().create_future()
        return future

    def answer(self, kind: type[Message], name: str, error: ClientError | None = None) -> None:
        future = self._waiting.pop((kind, name), None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # seen: a call that was cancelled has nobody to tell

    def refuse(self, name: str, reason: str, layer: Layer | None) -> None:
        """`layer`: of which the name is. Which request of that name is meant is not said; there is one at a time."""
        for kind, error in REFUSALS.items():
            if layer in (None, LAYERS[error]):
                self.answer(kind, name, error(name, reason))

    def answer_all(self, *kinds: type[Message]) -> None:
        for kind, name in [each for each in self._waiting if each[0] in kinds]:
            self.answer(kind, name)

    def fail_all(self, error: ClientError) -> None:
        for kind, name in list(self._waiting):
            self.answer(kind, name, error)
