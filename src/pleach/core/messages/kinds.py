"""Sets of message types."""

from __future__ import annotations

from typing import get_args

from pleach.core.messages.base import Message
from pleach.core.messages.clients import ClientRequest, Deliver, Publish, Published
from pleach.core.messages.routing import Forward, Marked, PubSub

CLIENT_REQUESTS: frozenset[type[Message]] = frozenset(get_args(ClientRequest))
PUB_SUB: frozenset[type[Message]] = frozenset(get_args(PubSub))
PUB_SUB_OR_MARKED: frozenset[type[Message]] = PUB_SUB | {Marked}  # between brokers of every overlay

EVENTS_BETWEEN_BROKERS: frozenset[type[Message]] = frozenset((Forward, Marked))
EVENTS_TO_BROKERS: frozenset[type[Message]] = EVENTS_BETWEEN_BROKERS | {Publish}
UNMARKED_EVENTS: frozenset[type[Message]] = EVENTS_TO_BROKERS - {Marked}  # without a wrapper
EVENT_TRAFFIC: frozenset[type[Message]] = EVENTS_TO_BROKERS | {Deliver, Published}  # an event and its confirmation
