"""Between clients and brokers."""

from __future__ import annotations

from typing import TypeAlias

from pleach.core.events.event import EventId
from pleach.core.events.filter import Filter
from pleach.core.messages.base import EventMessage, Layer, Message

# Client to broker ----------------------------------------------------------------------------------------------


class Attach(Message, frozen=True, tag=1):
    """The first message of a client. `own_events`: whether it wants to get what it publishes itself."""

    own_events: bool = True


class Detach(Message, frozen=True, tag=2):
    """The last message of a client: its subscriptions and advertisements end with it."""


class Publish(EventMessage, frozen=True, tag=3):
    """Answered by `Published` or `PublishRefused`."""


class Subscribe(Message, frozen=True, tag=4):
    """`network_wide`: confirm only once every broker that must know the subscription does (else: at once).

    `renews`: the client has it and keeps it, whatever the broker knows of it (stabilise/). This is not answered.
    """

    subscription: str
    filter: Filter
    network_wide: bool = True
    renews: bool = False


class Unsubscribe(Message, frozen=True, tag=5):
    subscription: str


class Advertise(Message, frozen=True, tag=6):
    """`renews`: as in `Subscribe`; it is answered only where the broker had no such advertisement in effect."""

    advertisement: str
    filter: Filter
    renews: bool = False


class Unadvertise(Message, frozen=True, tag=7):
    advertisement: str


class Renewed(Message, frozen=True, tag=8):
    """Since its last `Attach` the client has said again all that it wants (stabilise/)."""


# Broker to client ----------------------------------------------------------------------------------------------


class Attached(Message, frozen=True, tag=16):
    """`refresh`: the seconds after which the client has to say again what it wants; 0: it need not (stabilise/)."""

    refresh: float = 0.0


class Deliver(EventMessage, frozen=True, tag=17):
    """An event that one of the client's subscriptions matches."""


class Published(Message, frozen=True, tag=18):
    """The broker has taken the event over: it will be delivered. `count`: with those just before it, that many."""

    event: EventId
    count: int = 1

    @property
    def event_ids(self) -> list[EventId]:
        """All that it confirms, in order."""
        publisher, incarnation, last = self.event
        return [EventId(publisher, incarnation, sequence) for sequence in range(last - self.count + 1, last + 1)]


class PublishRefused(Message, frozen=True, tag=19):
    """The event was not taken over and nobody will get it.

    `is_in_doubt`: it was passed on to a broker that has lost its memory since, and somebody may have got it.
    """

    event: EventId
    reason: str
    is_in_doubt: bool = False


class Subscribed(Message, frozen=True, tag=20):
    subscription: str


class Unsubscribed(Message, frozen=True, tag=21):
    """Nothing is delivered for the subscription after this message."""

    subscription: str


class Advertised(Message, frozen=True, tag=22):
    """Every subscription that the advertisement concerns is known where the publisher is."""

    advertisement: str


class Unadvertised(Message, frozen=True, tag=23):
    advertisement: str


class Refused(Message, frozen=True, tag=24):
    """A request other than Publish that was not carried out.

    `layer`: that of the name which it was about; None where it was about none, and from older brokers.
    `filter`: what was asked for under that name, which may well stand for something else.
    """

    subject: str
    reason: str
    layer: Layer | None = None
    filter: Filter | None = None


ClientRequest: TypeAlias = Attach | Detach | Publish | Subscribe | Unsubscribe | Advertise | Unadvertise | Renewed


ClientReply: TypeAlias = (
    Attached | Deliver | Published | PublishRefused | Subscribed | Unsubscribed | Advertised | Unadvertised | Refused
)
