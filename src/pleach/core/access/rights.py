"""Rights are filters, and a request is judged by comparing two filters (docs/protocols/rights.md).

    asked lies within the right           granted as asked
    asked and right overlap               granted as `asked AND right`; denied where the right is strict
    no event can match both               denied
    asked names a hidden attribute        denied: by its answers a filter tells the values that it names

Rule 1: what is granted matches exactly the events that both the right and the asked filter match.
Rule 2: a conjunction has a budget (events/budget.py); what is beyond it is denied, never granted in part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pleach.core.access.tenants import TENANT
from pleach.core.events.algebra import covers, overlaps
from pleach.core.events.budget import EFFECTIVE
from pleach.core.events.constraint import Conjunction, TypeConstraint
from pleach.core.events.event import Event
from pleach.core.events.expression import And, Expression, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_internal
from pleach.core.events.normalise import normalise
from pleach.core.events.sized_cache import SizedCache
from pleach.errors import FilterError

REMEMBERED_CHARACTERS_MAX = 1_024  # longer ones are computed each time
CONJUNCTION_CHARACTERS_REMEMBERED = 131_072  # some 100 bytes of memory each
# Many clients ask for the same, and renew it.
_conjunctions: SizedCache[tuple[Filter, Filter], Filter] = SizedCache(CONJUNCTION_CHARACTERS_REMEMBERED)

TRUE: Final = parse_internal("TRUE")  # interned: what is decoded is the same object, which is soon compared
FALSE: Final = parse_internal("FALSE")


class Rights(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a principal may do. FALSE: nothing, TRUE: everything.

    `hidden`: attributes that it may neither name in a filter nor see. `strict`: a request beyond the right is denied
    rather than narrowed. `scope`: the events of the principal's tenant; every request is about those alone, without a
    word about it. The three filters lie within it.
    """

    publish: Filter
    subscribe: Filter
    advertise: Filter
    hidden: tuple[str, ...] = ()
    strict: bool = False
    scope: Filter = TRUE

    def requested(self, layer: int) -> Filter:
        """The right that a request of this layer (`Layer` in messages/base.py) needs."""
        return self.advertise if layer else self.subscribe

    def scoped(self, asked: Filter) -> Filter:
        """What is asked, of the tenant's events; raises FilterError beyond the budget (rule 2)."""
        return asked if self.scope == TRUE else conjunction(asked, self.scope)

    def shown(self, effective: Filter) -> Filter:
        """A filter as the client is told it: without what is hidden, and without its tenant, which it knows."""
        return without_hidden(effective, self.hidden if self.scope == TRUE else (*self.hidden, TENANT))

    def publishes(self, attributes: Mapping[str, Any]) -> bool:
        """Whether an event with these attributes may be published."""
        return self.publish is TRUE or self.publish.matches(attributes)

    def on_redacted(self, unseen: Collection[str]) -> Rights:
        """These rights, for events from which some attributes may have been removed: only what is certain counts."""
        if not unseen:
            return self
        certain = [each for each in self.subscribe.conjunctions if not absent_in(each) & {*unseen}]
        return msgspec.structs.replace(self, subscribe=Filter(certain))

    def shows(self, event: Event) -> bool:
        """Whether the event, without what is hidden, may be delivered."""
        return self.subscribe.matches(event.attributes)


EVERYTHING: Final = Rights(TRUE, TRUE, TRUE)
NOTHING: Final = Rights(FALSE, FALSE, FALSE)


class Granted(NamedTuple):
    """`filter`: the effective filter. `is_narrowed`: it matches fewer events than were asked for, or may do so."""

    filter: Filter
    is_narrowed: bool


class Denied(NamedTuple):
    reason: str


def judge(asked: Filter, layer: int, rights: Rights) -> Granted | Denied:
    """What becomes of a request to subscribe or advertise (`Layer`)."""
    if rights.hidden and (named := _named(asked, rights.hidden)):
        return Denied(f"it names {', '.join(named)}, hidden from this client: ask without it")
    right = rights.requested(layer)
    try:
        asked = rights.scoped(asked)
    except FilterError as error:
        return _too_large(error)
    if covers(right, asked):
        return Granted(asked, is_narrowed=False)
    if not overlaps(right, asked):
        return Denied("its right matches no event of this filter: ask an operator for the right")
    try:
        effective = conjunction(asked, right)
    except FilterError as error:
        return _too_large(error)
    if effective == asked:
        return Granted(asked, is_narrowed=False)
    if not effective.conjunctions:  # `overlaps` is not certain where patterns are entangled
        return Denied("its right matches no event of this filter: ask an operator for the right")
    if rights.strict:
        permitted = rights.shown(right).text
        return Denied(f"it is wider than its right, which is {permitted!r}: ask for a filter within it")
    return Granted(effective, is_narrowed=True)


def _too_large(error: FilterError) -> Denied:
    return Denied(f"with its right the filter is too large ({error.reason}): ask for less, or in several parts")


def conjunction(a: Filter, b: Filter) -> Filter:
    """The filter that matches what both match, in normal form; raises FilterError beyond the budget (rule 2)."""
    made = _conjunctions.get((a, b))
    if made is None:
        made = normalise(And((_expression(a), _expression(b))), EFFECTIVE)
        size = len(a.text) + len(b.text) + len(made.text)
        if size <= REMEMBERED_CHARACTERS_MAX:
            _conjunctions.setdefault((a, b), made, size)
    return made


def without_hidden(effective: Filter, hidden: Collection[str]) -> Filter:
    """A filter without the conditions that name hidden attributes."""
    if not hidden or not _named(effective, hidden):
        return effective
    shown = [{name: c for name, c in each.constraints.items() if name not in hidden} for each in effective.conjunctions]
    return Filter(dict.fromkeys(map(Conjunction, shown)))


def absent_in(conjunction: Conjunction) -> set[str]:
    """The attributes that a conjunction wants to be missing."""
    return {name for name, each in conjunction.constraints.items() if each.kind is TypeConstraint.ABSENT}


def redacted(event: Event, hidden: Collection[str]) -> Event:
    """The event without hidden attributes; the event itself where it has none."""
    if not any(name in event.attributes for name in hidden):
        return event
    return Event(event.id, {name: v for name, v in event.attributes.items() if name not in hidden}, event.payload)


def _named(wanted: Filter, hidden: Collection[str]) -> list[str]:
    return sorted({name for each in wanted.conjunctions for name in each.constraints if name in hidden})


def _expression(wanted: Filter) -> Expression:
    alternatives = (And(tuple(Predicate(*each) for each in one.constraints.items())) for one in wanted.conjunctions)
    return Or(tuple(alternatives))
