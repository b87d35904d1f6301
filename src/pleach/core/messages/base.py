"""What all messages share: names, the base class, and how wire tags are given out.

A message's `tag` stands for its type on the wire. Rule 1: a tag is never changed and never given out again, so that a
class can be renamed and old captures can be read. Rule 2: a tag lies in the range of its area. Tags below 128 take one
byte, so the areas with much traffic come first. `tests/core/messages/test_tags.py` pins all of them.

    1–15     clients to brokers        64–79    SwapLink           144–159  neighbour reports
    16–31    brokers to clients        80–111   link exchange      160–175  rebuilt tables
    32–47    routing                   112–127  membership         176–191  coloured overlay
    48–63    operators' requests       128–143  client movement    192–223  ring;  224–239  council
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Final, TypeAlias

import msgspec

from pleach.core.events.event import Event

CONFIRMED_TOGETHER_MAX = 1_024  # events that one `Published` confirms

# The name of a broker or a client; one name space for both. Empty: nobody. Ports refuse names that cannot be shown.
Node: TypeAlias = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # whatever a peer counts
Life: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # a node's epoch; 0: not known
# Where a node listens, as HOST:PORT, or empty: not known. Whether there is such a host is seen when it is dialled.
_LABEL = r"[^\s\x00-\x1f\x7f.:/@\[\]]{1,63}"
_HOST = rf"(\[[0-9A-Za-z:.%_-]{{2,100}}\]|[0-9A-Fa-f:]{{2,40}}|(?=[^:]{{1,253}}:){_LABEL}(\.{_LABEL}){{0,126}}\.?)"
NetworkAddress: TypeAlias = Annotated[str, msgspec.Meta(max_length=300, pattern=rf"^({_HOST}:[0-9]{{1,5}})?\Z")]
OPERATOR: Final = ""  # the sender of requests that come from nobody in the network


class Layer(IntEnum):
    """What a routing entry is: a subscription or an advertisement. Both travel by the same mechanism."""

    SUBSCRIPTIONS = 0
    ADVERTISEMENTS = 1


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all messages."""

    @property
    def events(self) -> Sequence[Event]:
        """The events that the message carries, in order, also those within messages that it wraps."""
        return ()


class EventMessage(Message, frozen=True):
    """Nothing but an event."""

    event: Event

    @property
    def events(self) -> Sequence[Event]:
        return (self.event,)


def wire_tag(kind: type[Message]) -> int:
    tag = kind.__struct_config__.tag
    assert isinstance(tag, int), f"{kind.__name__} has no wire tag"
    return tag
