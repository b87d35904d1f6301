"""Messages between the machines of a view that the core knows nothing of: the fill of a replica, and a broker's files.

primary ── FillBegin, FillPart …, FillEnd ───▶ copy      copy ── FillTaken, FillRefused ──▶ primary
primary ── SendFiles ────────────────────────▶ copy      when the broker's settings or certificate have changed
host ───── HostIsHere ───────────────────────▶ a process that runs a broker, which tells the others; or its host

Records that are committed during a fill travel as `Append` in between, in the order of sending: each chunk was read
after the records before it, and before those after it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pleach.core.messages.base import NetworkAddress, Node
from pleach.core.messages.locations import HostLocation
from pleach.core.standby.messages import StandbyMessage
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, ViewNumber
from pleach.errors import StandbyMessageError

FILE_BYTES_MAX = 1_048_576
REASON_LENGTH_MAX = 1_000

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FillId: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # drawn by the primary, above those before
ChunkNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
FileBytes: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=FILE_BYTES_MAX)]


class BrokerFiles(msgspec.Struct, frozen=True, array_like=True):
    """What a machine needs to run the broker, besides its data; certificate and key are empty without TLS."""

    settings: FileBytes  # all of them, as JSON
    certificate: FileBytes = b""
    key: FileBytes = b""
    access: FileBytes = b""  # the access file, where the broker has one
    token_keys: FileBytes = b""  # of the issuer of tokens that the access file names


class FillMessage(msgspec.Struct, frozen=True, array_like=True):
    """Base of these messages."""

    broker: Node
    number: ViewNumber  # of the newest view that the sender knows; 0: none


class FillBegin(FillMessage, frozen=True, tag=32):
    fill: FillId
    files: BrokerFiles


class FillPart(FillMessage, frozen=True, tag=33):
    """A chunk (server/storage/fill.py)."""

    fill: FillId
    chunk: ChunkNumber  # from 1
    data: bytes


class FillEnd(FillMessage, frozen=True, tag=34):
    fill: FillId
    position: Position


class FillTaken(FillMessage, frozen=True, tag=35):
    """All chunks up to this one were taken: the primary keeps a bound on those that were not."""

    fill: FillId
    chunk: ChunkNumber


class FillRefused(FillMessage, frozen=True, tag=36):
    """The fill has ended without a replica; fill 0: whatever was under way was not taken, as its receiver is new."""

    fill: FillId
    reason: Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)]


class SendFiles(FillMessage, frozen=True, tag=37):
    files: BrokerFiles


class HostIsHere(FillMessage, frozen=True, tag=38):
    """A machine that runs no broker may hold copies. `broker`: the name of its process."""

    since: Number
    machine: Machine
    address: NetworkAddress
    zone: Node = ""
    client: NetworkAddress = ""  # where clients ask for brokers
    is_leaving: bool = False  # it ends once no broker needs it

    @property
    def location(self) -> HostLocation:
        return HostLocation(self.since, self.address, self.zone, self.client, self.is_leaving)


AnyFillMessage: TypeAlias = FillBegin | FillPart | FillEnd | FillTaken | FillRefused | SendFiles | HostIsHere
BetweenMachines: TypeAlias = StandbyMessage | AnyFillMessage

encode_between = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[BetweenMachines] = msgspec.msgpack.Decoder(BetweenMachines)


def decode_between(data: Annotated[bytes, "from a peer"]) -> BetweenMachines:
    """Raises StandbyMessageError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StandbyMessageError(f"no message of a standby: {error}") from None
