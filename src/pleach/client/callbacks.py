"""Events handed to a function instead of an iterator."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pleach.client.subscription import Subscription
from pleach.core.events.event import Event
from pleach.errors import ClientError

Callback: TypeAlias = Callable[[Event], Awaitable[None] | None]

log = logging.getLogger(__name__)


async def call_for_each(subscription: Subscription, callback: Callback) -> None:
    """One event after the other. An exception of the callback is logged, and the event counts as consumed."""
    try:
        async for event in subscription:
            try:
                answer = callback(event)
                if answer is not None and inspect.isawaitable(answer):
                    await answer
            except Exception:
                log.exception("the callback of %s failed for event %s", subscription.name, event.id)
    except ClientError as error:
        log.warning("subscription %s ended: %s", subscription.name, error)
