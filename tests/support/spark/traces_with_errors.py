"""Random traces with errors of every kind: planted ones, and records dropped, doubled, moved and altered at will.

What comes out is often wrong in several ways at once, or cannot be judged at all: two oracles must say the same of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from pleach.trace import Record, RecordKind, attributes_text
from support.trace.planted_errors import AT_ONE_RECORD, EXACT, inserted, postponed, renumbered, without
from support.trace.tiny_network import clean_story

PLANTINGS = (*EXACT, *AT_ONE_RECORD)
DECIDING = ("publish", "publish_ack", "publish_fail", "subscribe", "subscribe_ack", "unsubscribe", "unsubscribe_ack")

Spoiling = Callable[[list[Record], random.Random], list[Record]]


def drop(records: list[Record], draw: random.Random) -> list[Record]:
    return without(records, draw.randrange(len(records)))


def drop_delivery(records: list[Record], draw: random.Random) -> list[Record]:
    return without(records, draw.choice(of_kind(records, "deliver") or [0]))


def double(records: list[Record], draw: random.Random) -> list[Record]:
    index = draw.choice(of_kind(records, "deliver", "drain", *DECIDING[3:]) or [0])
    return inserted(records, draw.randrange(index, len(records)), records[index])


def postpone(records: list[Record], draw: random.Random) -> list[Record]:
    index = draw.choice(of_kind(records, "deliver", *DECIDING) or [0])
    return postponed(records, index, min(index + draw.randrange(1, 60), len(records) - 1))


def misdirect(records: list[Record], draw: random.Random) -> list[Record]:
    index = draw.choice(of_kind(records, "deliver") or [0])
    other = draw.choice(records).who or "c9"
    changed = msgspec.structs.replace(records[index], client=other, node=other)
    return renumbered([*records[:index], changed, *records[index + 1 :]])


def alter(records: list[Record], draw: random.Random) -> list[Record]:
    """Other attributes, or the same in another spelling."""
    index = draw.choice(of_kind(records, "deliver") or [0])
    text = draw.choice(
        [attributes_text({"topic": "t9"}), records[index].attributes.replace(",", " , "), "", '{"topic":5}']
    )
    return replaced(records, index, attributes=text)


def suspend(records: list[Record], draw: random.Random) -> list[Record]:
    place = draw.randrange(len(records))
    detail = f"corrupt stabilises={draw.choice([0, 1, 5, 20])} flight={draw.choice([0, 0.5, 3])}"
    fault = Record(records[0].run, 0.0, "b1", 0, RecordKind.FAULT, detail=detail)
    return inserted(records, place, fault)


def drain_more(records: list[Record], draw: random.Random) -> list[Record]:
    drain = Record(records[0].run, 0.0, "", 0, RecordKind.DRAIN)
    return inserted(records, draw.randrange(len(records) + 1), drain)


def promise_less(records: list[Record], draw: random.Random) -> list[Record]:
    kept = [record for record in records if not (record.kind == RecordKind.STATE and not record.node)]
    detail = f"ordering={draw.choice(['none', 'fifo', 'causal'])}"
    return renumbered([Record(kept[0].run, 0.0, "", 0, RecordKind.STATE, detail=detail), *kept])


def reincarnate(records: list[Record], draw: random.Random) -> list[Record]:
    """The same id spelt with a zero in front: another event, at the same place in its publisher's row."""
    index = draw.choice(of_kind(records, "deliver", "publish") or [0])
    publisher, _, rest = records[index].event.partition("/")
    return replaced(records, index, event=f"{publisher}/0{rest}") if rest else records


def make_unusable(records: list[Record], draw: random.Random) -> list[Record]:
    index = draw.randrange(len(records))
    changes = draw.choice(
        [
            {"kind": "received"},
            {"event": "nobody"},
            {"filter": "topic = ="},
            {"attributes": "[1]"},
            {"attributes": '{"x":null}'},
            {"client": "somebody"},
            {"detail": "stabilises=soon ordering=total", "kind": "fault"},
            {"detail": "ordering=total", "kind": "state", "node": ""},
            {"filter": "EXISTS other"},
            {"event": records[draw.randrange(len(records))].event},
            {"at": float("inf")},
        ]
    )
    return replaced(records, index, **changes)


def replaced(records: list[Record], index: int, **changes) -> list[Record]:
    return [*records[:index], msgspec.structs.replace(records[index], **changes), *records[index + 1 :]]


def of_kind(records: list[Record], *kinds: str) -> list[int]:
    return [index for index, record in enumerate(records) if record.kind in kinds]


SPOILINGS: tuple[Spoiling, ...] = (
    drop,
    drop_delivery,
    double,
    postpone,
    misdirect,
    alter,
    suspend,
    drain_more,
    promise_less,
    reincarnate,
)


def spoilt(seed: int) -> list[Record]:
    """A run named after its seed."""
    draw = random.Random(seed)
    story = clean_story(seed)
    plant = draw.choice(PLANTINGS)(story, draw)
    records = plant.records if plant else story.records
    for _ in range(draw.choice([0, 0, 1, 2, 5])):
        records = draw.choice(SPOILINGS)(records, draw)
    if draw.random() < 0.1:
        records = make_unusable(records, draw)
    return records
