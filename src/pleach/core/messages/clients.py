"""Messages between clients and brokers."""

from __future__ import annotations

from typing import TypeAlias

from pleach.core.events.event import EventId
from pleach.core.events.filter import Filter
from pleach.core.messages.base import EventMessage, Integer, Layer, Message

# Client to broker ----------------------------------------------------------------------------------------------


class Attach(Message, frozen=True, tag=1):
    """The first message of a client. `own_events`: whether its own events are delivered to it."""

    own_events: bool = True


class Detach(Message, frozen=True, tag=2):
    """The last message of a client: its subscriptions and advertisements end with it."""


class Publish(EventMessage, frozen=True, tag=3):
    """Answered by `Published` or `PublishRefused`."""


class Subscribe(Message, frozen=True, tag=4):
    """`network_wide`: confirm it when every broker that must know it does; else at once.

    `renews`: renews the lease of a subscription (stabilise/), also one that the broker has lost; not answered.
    """

    subscription: str
    filter: Filter
    network_wide: bool = True
    renews: bool = False


class Unsubscribe(Message, frozen=True, tag=5):
    subscription: str


class Advertise(Message, frozen=True, tag=6):
    """`renews`: as in `Subscribe`; answered only where the broker had no such advertisement in effect."""

    advertisement: str
    filter: Filter
    renews: bool = False


class Unadvertise(Message, frozen=True, tag=7):
    advertisement: str


class Renewed(Message, frozen=True, tag=8):
    """The client has renewed all its subscriptions and advertisements since its last `Attach` (stabilise/)."""


class Rejudge(Message, frozen=True, tag=10):
    """Judge the client's requests by its present rights. Said on its behalf by its broker, never by a client."""


# Broker to client ----------------------------------------------------------------------------------------------


class Attached(Message, frozen=True, tag=16):
    """`refresh`: the seconds after which the client must renew its requests; 0: never (stabilise/)."""

    refresh: float = 0.0


class Deliver(EventMessage, frozen=True, tag=17):
    """An event that one of the client's subscriptions matches."""


class Published(Message, frozen=True, tag=18):
    """The broker has accepted the event: it will be delivered. `count`: events confirmed, this one the last."""

    event: EventId
    count: Integer = 1

    @property
    def event_ids(self) -> list[EventId]:
        """The events that it confirms, in order."""
        publisher, incarnation, last = self.event
        return [EventId(publisher, incarnation, sequence) for sequence in range(last - self.count + 1, last + 1)]


class PublishRefused(Message, frozen=True, tag=19):
    """The event was not accepted, and is not delivered.

    `is_in_doubt`: it was forwarded to a broker that has lost its state since, and may have been delivered.
    """

    event: EventId
    reason: str
    is_in_doubt: bool = False


class Subscribed(Message, frozen=True, tag=20):
    """`effective`: the filter in effect, where the client's right has narrowed the one asked for (core/access).

    `is_change`: it answers no request; the rights of the client have changed.
    """

    subscription: str
    effective: Filter | None = None
    is_change: bool = False


class Unsubscribed(Message, frozen=True, tag=21):
    """No event is delivered for the subscription after this message."""

    subscription: str


class Advertised(Message, frozen=True, tag=22):
    """The publisher's broker knows every subscription that overlaps the advertisement.

    `effective`: as in `Subscribed`.
    """

    advertisement: str
    effective: Filter | None = None


class Unadvertised(Message, frozen=True, tag=23):
    advertisement: str


class Refused(Message, frozen=True, tag=24):
    """A request other than Publish was refused.

    `subject`: the subscription or advertisement that it named; `layer`: which of the two, None where it named none.
    `filter`: the one in the request; the name may stand for another.
    """

    subject: str
    reason: str
    layer: Layer | None = None
    filter: Filter | None = None


ClientRequest: TypeAlias = (
    Attach | Detach | Publish | Subscribe | Unsubscribe | Advertise | Unadvertise | Renewed | Rejudge
)


ClientReply: TypeAlias = (
    Attached | Deliver | Published | PublishRefused | Subscribed | Unsubscribed | Advertised | Unadvertised | Refused
)
