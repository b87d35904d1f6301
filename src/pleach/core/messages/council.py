"""What brokers say that improve their tree among themselves (docs/protocols/ci.md): soft, and never kept.

d ── Bulletin ──▶ … ──▶ a      what d's clients have to do with, and what the way costs
a ── Motion ────▶ … ──▶ d      a link a–d instead of one on the way: each adds what it knows, d decides
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pleach.core.messages.base import Message, Node

RADIUS_MAX = 4  # hops; on longer cycles causal order would let events wait (core/overlay/choice.py)
TOUCHED_MAX = 16_384  # events that a motion speaks of: more than all ledgers of a way have

Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
Level: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=31)]


class BrokerOnPath(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker on the way, as it says itself.

    `processing`: what an event costs it. `degree`: its neighbours. `age`: seconds that its ledger goes back, and
    `level`: which events that has.
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
    """From the first broker of the way to the last. S1's broadcast.

    `summary`: a Bloom filter of its clients' events. `address`: where it listens. `links`: what those of the way cost.
    """

    summary: bytes
    address: str
    way: BrokerPath
    links: Links


class Motion(Message, frozen=True, tag=225):
    """From the first broker of the way, which wants a link to the last one. S1's request.

    `links`: what those of the cycle cost, the new one last. `window`, `level`: of which events it speaks.
    `touched`: those, each with the brokers that it touches (ledger.py): bit i stands for the i-th of the way.
    """

    way: BrokerPath
    links: Links
    window: Amount
    level: Level
    touched: Touched


CouncilMessage: TypeAlias = Bulletin | Motion
