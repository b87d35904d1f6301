"""Messages between the machines of a view; each names the broker, and the number of the view that its sender knows.

primary ── Alive ────▶ members, and machines that may become some      member ── Here ──────▶ primary
primary ── Append ───▶ copies, and machines that are to become some    copy ──── Appended, Astray ──▶ primary
member ─── Ask ──────▶ members: do you hear the primary?               member ── Unheard ───▶ member
proposer ─ Prepare, Propose ──▶ members                                member ── Promise, Accepted, Rejected ─▶ proposer
anyone ─── ViewInstalled ▶ whoever knows an older view only            primary ── TakeOver ─▶ copy
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pleach.core.messages.base import Node
from pleach.core.standby.positions import Position
from pleach.core.standby.views import AcceptedView, Ballot, View, ViewNumber
from pleach.errors import StandbyMessageError


class MemberMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all messages between members."""

    broker: Node
    number: ViewNumber  # of the newest view that the sender knows; 0: none


class Alive(MemberMessage, frozen=True, tag=1):
    """From the primary, again and again, also while it is being started. `is_able`: a majority answers it."""

    is_able: bool = True


class Here(MemberMessage, frozen=True, tag=2):
    """The answer to Alive, and to a view that was installed. `position`: of the copy that is held, if any."""

    position: Position | None


class Append(MemberMessage, frozen=True, tag=3):
    """A record, and the positions before and after it: a copy that is elsewhere does not take it."""

    previous: Position
    position: Position
    record: bytes


class Appended(MemberMessage, frozen=True, tag=4):
    """All up to this position is on disk."""

    position: Position


class Astray(MemberMessage, frozen=True, tag=15):
    """The last record did not follow what the copy has: it is at this position, if at any."""

    position: Position | None


class Ask(MemberMessage, frozen=True, tag=5):
    """Is the primary silent? Who knows a newer view than the sender tells it instead."""


class Unheard(MemberMessage, frozen=True, tag=6):
    is_silent: bool


class Prepare(MemberMessage, frozen=True, tag=7):
    """`is_invited`: the primary has asked the proposer to take over."""

    ballot: Ballot
    is_invited: bool = False


class Promise(MemberMessage, frozen=True, tag=8):
    ballot: Ballot
    accepted: AcceptedView | None


class Propose(MemberMessage, frozen=True, tag=9):
    ballot: Ballot
    view: View


class Accepted(MemberMessage, frozen=True, tag=10):
    ballot: Ballot


class Rejected(MemberMessage, frozen=True, tag=11):
    """A higher ballot was promised; or the primary is heard, and `promised` is not higher."""

    ballot: Ballot
    promised: Ballot


class ViewInstalled(MemberMessage, frozen=True, tag=12):
    view: View


class TakeOver(MemberMessage, frozen=True, tag=13):
    """From the primary to a copy: become the primary."""


class Dissolved(MemberMessage, frozen=True, tag=14):
    """The broker has left the network for good: nothing of it is kept any more."""


StandbyMessage: TypeAlias = (
    Alive
    | Here
    | Append
    | Appended
    | Astray
    | Ask
    | Unheard
    | Prepare
    | Promise
    | Propose
    | Accepted
    | Rejected
    | ViewInstalled
    | TakeOver
    | Dissolved
)

encode_standby = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[StandbyMessage] = msgspec.msgpack.Decoder(StandbyMessage)


def decode_standby(data: Annotated[bytes, "from a peer"]) -> StandbyMessage:
    """Raises StandbyMessageError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StandbyMessageError(f"no message of a standby: {error}") from None
