"""Messages of brokers that improve their tree among themselves (docs/protocols/ci.md); they may be lost.

d ── Bulletin ──▶ … ──▶ a      which events d's clients publish and get, and what the path costs
a ── Motion ────▶ … ──▶ d      proposes a link a–d for one on the path: each broker adds its data, d decides
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pleach.core.messages.base import Message, NetworkAddress, Node

RADIUS_MAX = 4  # hops; on longer cycles causal order would let events wait (core/overlay/choice.py)
TOUCHED_MAX = 16_384  # events in a motion: more than the ledgers of a whole path have

Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
Level: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=31)]


class BrokerOnPath(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker on the path, as it describes itself.

    `processing`: the cost of an event there. `degree`: its number of neighbours. `age`: seconds that its ledger covers;
    `level`: the sample of events that the ledger holds.
    """

    broker: Node
    processing: Amount
    degree: Natural
    age: Amount
    level: Level


BrokerPath: TypeAlias = Annotated[list[BrokerOnPath], msgspec.Meta(min_length=1, max_length=RADIUS_MAX + 1)]
Links: TypeAlias = Annotated[list[Amount], msgspec.Meta(max_length=RADIUS_MAX + 1)]
Touched: TypeAlias = Annotated[dict[Natural, Natural], msgspec.Meta(max_length=TOUCHED_MAX)]


class Bulletin(Message, frozen=True, tag=224):
    """From the first broker of the path to the last. S1's broadcast.

    `summary`: a Bloom filter of its clients' events. `address`: where it listens. `links`: costs of the path's links.
    """

    summary: bytes
    address: NetworkAddress
    way: BrokerPath
    links: Links


class Motion(Message, frozen=True, tag=225):
    """From the first broker of the path, which proposes a link to the last one. S1's request.

    `links`: costs of the cycle's links, the new one last. `window`, `level`: the sample of events that it covers.
    `touched`: those events, each with the brokers that it visits (ledger.py): bit i stands for the i-th of the path.
    """

    way: BrokerPath
    links: Links
    window: Amount
    level: Level
    touched: Touched


CouncilMessage: TypeAlias = Bulletin | Motion
