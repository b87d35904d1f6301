"""Sets of message types that more than one module asks about."""

from __future__ import annotations

from typing import get_args

from pleach.core.messages.base import Message
from pleach.core.messages.clients import ClientRequest, Deliver, Publish, Published
from pleach.core.messages.routing import Forward, Marked, PubSub

CLIENT_REQUESTS: frozenset[type[Message]] = frozenset(get_args(ClientRequest))
PUB_SUB: frozenset[type[Message]] = frozenset(get_args(PubSub))
PUB_SUB_OR_MARKED: frozenset[type[Message]] = PUB_SUB | {Marked}  # what brokers say to each other in every tree

EVENTS_BETWEEN_BROKERS: frozenset[type[Message]] = frozenset((Forward, Marked))
EVENTS_TO_BROKERS: frozenset[type[Message]] = EVENTS_BETWEEN_BROKERS | {Publish}
UNMARKED_EVENTS: frozenset[type[Message]] = EVENTS_TO_BROKERS - {Marked}  # nothing but an event
EVENT_TRAFFIC: frozenset[type[Message]] = EVENTS_TO_BROKERS | {Deliver, Published}  # all that an event leads to
