"""Errors planted in clean traces. Each function returns the spoilt records and what the oracle should then say.

A plant may be impossible in a story (None): the tests draw stories until they have enough.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from pleach.trace import Record, RecordKind, Rule, attributes_text
from support.trace.tiny_network import Delivered, Published, Story, Taken


class Plant(NamedTuple):
    records: list[Record]
    rule: Rule
    client: str
    event: str
    reason: str = ""  # a part of the reason given


Planting = Callable[[Story, random.Random], Plant | None]


def renumbered(records: Iterable[Record]) -> list[Record]:
    """Each node's records numbered again, at times that do not fall."""
    counts: Counter[str] = Counter()
    now = 0.0
    out = []
    for record in records:
        counts[record.node] += 1
        now = max(now, record.at)
        out.append(msgspec.structs.replace(record, n=counts[record.node], at=now))
    return out


def without(records: list[Record], index: int) -> list[Record]:
    return renumbered(records[:index] + records[index + 1 :])


def inserted(records: list[Record], index: int, *new: Record) -> list[Record]:
    return renumbered(records[:index] + list(new) + records[index:])


def postponed(records: list[Record], index: int, beyond: int) -> list[Record]:
    """Record `index` moved to just after record `beyond`."""
    moved = records[index]
    return renumbered(records[:index] + records[index + 1 : beyond + 1] + [moved] + records[beyond + 1 :])


def delivery(story: Story, client: str, event: str, attributes: str = "") -> Record:
    return Record(story.records[0].run, 0.0, client, 0, RecordKind.DELIVER, event, client, attributes=attributes)


def lasting(story: Story) -> list[Delivered]:
    """Deliveries for a subscription that is never ended."""
    return [one for one in story.delivered if one.owed_to is not None and one.owed_to.ended is None]


def pick(draw: random.Random, choices: list) -> object:
    return draw.choice(choices) if choices else None


# Lost


def lost_subscription_lasts(story: Story, draw: random.Random) -> Plant | None:
    return _lost(story, draw, lambda one, taken: taken.ended is None, "not ended")


def lost_drain_before_unsubscribe(story: Story, draw: random.Random) -> Plant | None:
    def drained(one: Delivered, taken: Taken) -> bool:
        return taken.ended is not None and any(one.event.acknowledged < d < taken.ended for d in story.drains)

    return _lost(story, draw, drained, "after a drain")


def lost_later_event_before_unsubscribe(story: Story, draw: random.Random) -> Plant | None:
    def overtaken(one: Delivered, taken: Taken) -> bool:
        ended = taken.ended
        if ended is None or any(one.event.acknowledged < d < ended for d in story.drains):
            return False
        return any(
            other.client == one.client
            and other.event.publisher == one.event.publisher
            and one.index < other.index < ended
            and taken.wants(other.event)
            for other in story.delivered
        )

    return _lost(story, draw, overtaken, "later event")


def _lost(story: Story, draw: random.Random, fits: Callable[[Delivered, Taken], bool], reason: str) -> Plant | None:
    """Takes away a delivery that was owed for the one reason only."""
    chosen = pick(
        draw,
        [
            one
            for one in story.delivered
            if one.owed_to is not None
            and one.event.acknowledged is not None
            and fits(one, one.owed_to)
            and _owed_once(story, one)
        ],
    )
    if chosen is None:
        return None
    return Plant(without(story.records, chosen.index), Rule.LOST, chosen.client, chosen.event.id, reason)


def _owed_once(story: Story, one: Delivered) -> bool:
    """No other subscription of the client wants the event, and no other has used the id of the one that does."""
    mine = [taken for taken in story.taken if taken.client == one.client]
    wanting = [taken for taken in mine if taken.wants(one.event)]
    named = [taken for taken in mine if taken.name == one.owed_to.name]
    return wanting == [one.owed_to] == named


# Duplicate


def duplicate_plain(story: Story, draw: random.Random) -> Plant | None:
    chosen = pick(draw, lasting(story))
    if chosen is None:
        return None
    place = draw.randrange(chosen.index + 1, story.drains[-1] + 1)
    return _again(story, chosen, place)


def duplicate_after_move(story: Story, draw: random.Random) -> Plant | None:
    chosen = pick(draw, lasting(story))
    if chosen is None:
        return None
    move = Record(story.records[0].run, 0.0, chosen.client, 0, RecordKind.MOVE, client=chosen.client, peer="b9")
    return _again(story, chosen, story.drains[-1], move)


def duplicate_after_resubscription(story: Story, draw: random.Random) -> Plant | None:
    chosen = pick(draw, lasting(story))
    if chosen is None:
        return None
    kinds = (
        RecordKind.UNSUBSCRIBE,
        RecordKind.UNSUBSCRIBE_ACK,
        RecordKind.SUBSCRIBE,
        RecordKind.SUBSCRIBE_ACK,
    )
    taken = chosen.owed_to
    between = [
        Record(story.records[0].run, 0.0, taken.client, 0, kind, "", taken.client, taken.name, taken.filter)
        for kind in kinds
    ]
    return _again(story, chosen, story.drains[-1], *between)


def _again(story: Story, one: Delivered, place: int, *before: Record) -> Plant:
    second = delivery(story, one.client, one.event.id, attributes_text(one.event.attributes))
    return Plant(inserted(story.records, place, *before, second), Rule.DUPLICATE, one.client, one.event.id)


# Spurious


def spurious_not_subscribed(story: Story, draw: random.Random) -> Plant | None:
    """A real event at a client that never wanted such an event."""
    clients = sorted({taken.client for taken in story.taken})
    acknowledged = [one for one in story.published if one.acknowledged is not None]
    pairs = [
        (client, event)
        for client in clients
        for event in acknowledged
        if not any(taken.wants(event) for taken in story.taken if taken.client == client)
    ]
    chosen = pick(draw, pairs)
    if chosen is None:
        return None
    client, event = chosen
    place = draw.randrange(event.acknowledged + 1, story.drains[-1] + 1)
    records = inserted(story.records, place, delivery(story, client, event.id))
    return Plant(records, Rule.SPURIOUS, client, event.id, "no matching subscription")


def spurious_after_unsubscribe_ack(story: Story, draw: random.Random) -> Plant | None:
    """A real event, once wanted, after the only subscription for it is over."""
    choices: list[tuple[Taken, Published, int]] = []
    for taken in story.taken:
        mine = [one for one in story.taken if one.client == taken.client]
        over = _unsubscribe_ack(story, taken)
        if over is None or any(one.name == taken.name for one in mine if one is not taken):
            continue
        got = {one.event.id for one in story.delivered if one.client == taken.client}
        choices += [
            (taken, event, over)
            for event in story.published
            if event.acknowledged is not None
            and event.id not in got
            and [one for one in mine if one.wants(event)] == [taken]
        ]
    chosen = pick(draw, choices)
    if chosen is None:
        return None
    taken, event, over = chosen
    place = max(over, event.acknowledged) + 1
    records = inserted(story.records, place, delivery(story, taken.client, event.id))
    return Plant(records, Rule.SPURIOUS, taken.client, event.id, "no matching subscription")


def _unsubscribe_ack(story: Story, taken: Taken) -> int | None:
    wanted = (RecordKind.UNSUBSCRIBE_ACK, taken.client, taken.name)
    found = [i for i, one in enumerate(story.records) if (one.kind, one.client, one.subscription) == wanted]
    return found[0] if found else None


def spurious_never_published(story: Story, draw: random.Random) -> Plant | None:
    client = draw.choice(story.records).client or "c0"
    event = draw.choice(["ghost/0/1", "c1/0/999999", "c2/77/1"])
    place = draw.randrange(story.drains[-1] + 1)
    records = inserted(story.records, place, delivery(story, client, event))
    return Plant(records, Rule.SPURIOUS, client, event, "never published")


def spurious_after_publish_fail(story: Story, draw: random.Random) -> Plant | None:
    times = Counter(one.id for one in story.published)
    failed = [one for one in story.published if one.fate == "failed" and times[one.id] == 1]
    pairs = [(event, taken) for event in failed for taken in story.taken if taken.wants(event) and taken.ended is None]
    chosen = pick(draw, pairs)
    if chosen is None:
        return None
    event, taken = chosen
    place = max(event.index + 2, taken.asked + 1)  # after its publish_fail
    records = inserted(story.records, place, delivery(story, taken.client, event.id))
    return Plant(records, Rule.SPURIOUS, taken.client, event.id, "failed")


def spurious_altered(story: Story, draw: random.Random) -> Plant | None:
    chosen = pick(draw, story.delivered)
    if chosen is None:
        return None
    change = draw.choice([{"price": -1}, {"extra": True}, {"topic": "t9"}])
    attributes = attributes_text({**chosen.event.attributes, **change})
    records = list(story.records)
    records[chosen.index] = msgspec.structs.replace(records[chosen.index], attributes=attributes)
    return Plant(records, Rule.SPURIOUS, chosen.client, chosen.event.id, "attributes")


# Order


def fifo_swapped(story: Story, draw: random.Random) -> Plant | None:
    """A delivery put off until after the next one of the same publisher."""
    pairs = [
        (one, other)
        for one in lasting(story)
        for other in story.delivered
        if other.client == one.client and other.event.publisher == one.event.publisher and other.index > one.index
    ]
    chosen = pick(draw, pairs)
    if chosen is None:
        return None
    one, other = chosen
    records = postponed(story.records, one.index, other.index)
    return Plant(records, Rule.FIFO, one.client, one.event.id, f"got {_highest(story, one, other)} before")


def _highest(story: Story, one: Delivered, last: Delivered) -> str:
    """The last event of that publisher that its client gets up to `last`."""
    return [
        other.event.id
        for other in story.delivered
        if other.client == one.client and other.event.publisher == one.event.publisher and other.index <= last.index
    ][-1]


def causal_effect_first(story: Story, draw: random.Random) -> Plant | None:
    """A cause put off until after an answer to it, by another client; no event of its publisher lies between."""
    pairs = []
    for one in lasting(story):
        if one.event.publisher == one.client:
            continue
        for other in story.delivered:
            if other.client != one.client or other.index <= one.index:
                continue
            if other.event.publisher == one.event.publisher:
                break  # from here on FIFO would see it
            if _answers(story, other.event, one.event) and other.event.publisher != one.client:
                pairs.append((one, other))
    chosen = pick(draw, pairs)
    if chosen is None:
        return None
    one, other = chosen
    records = postponed(story.records, one.index, other.index)
    return Plant(records, Rule.CAUSAL, one.client, one.event.id, "before, which came after it")


def _answers(story: Story, effect: Published, cause: Published) -> bool:
    """The publisher of the effect had itself got the cause."""
    return any(
        one.client == effect.publisher and one.event is cause and one.index < effect.index for one in story.delivered
    )


EXACT: tuple[Planting, ...] = (
    lost_subscription_lasts,
    lost_drain_before_unsubscribe,
    lost_later_event_before_unsubscribe,
    duplicate_plain,
    duplicate_after_move,
    duplicate_after_resubscription,
    spurious_never_published,
    spurious_after_publish_fail,
    spurious_altered,
    fifo_swapped,
    causal_effect_first,
)
"""One violation each, and no other."""

AT_ONE_RECORD: tuple[Planting, ...] = (spurious_not_subscribed, spurious_after_unsubscribe_ack)
"""The same delivery may be out of order as well, and so may those that follow it."""
