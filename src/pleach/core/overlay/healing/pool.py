"""The testimonies about a dead broker: of its neighbours, and of those behind neighbours that are dead too.

Stand-ins of dead brokers that were neighbours exchange their testimonies, so that each has those of all living
neighbours of the whole dead part. From these alone each computes what the dead part knew, as if it had been one broker;
all get the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pleach.core.events.event import EventId
from pleach.core.messages import Got, Layer, Node, Sent, TableEntries, Testimony
from pleach.core.overlay.healing.causal_merge import Account
from pleach.core.overlay.healing.journal import Marks, in_order, marks_of
from pleach.core.routing.entries import Entry
from pleach.core.routing.rewiring import NewLink, Rewiring, unpacked

ABSENT: Final = " absent clients"  # not a valid node name: it has a blank


class Pool(msgspec.Struct, array_like=True):
    """`name`: the broker whose stand-in this is. `members`: the dead brokers with their neighbours, as far as known."""

    name: Node
    members: dict[Node, list[Node]]
    testimonies: list[Testimony] = []

    def hear(self, testimony: Testimony) -> bool:
        """A testimony from the witness itself; whether it is new. A later one (of another epoch) replaces it."""
        others = [each for each in self.testimonies if _key(each) != _key(testimony)]
        return self._become(self.members, [*others, testimony])

    def learn(
        self, stand_in: Node, members: Iterable[tuple[Node, list[Node]]], testimonies: Iterable[Testimony]
    ) -> bool:
        """Testimonies from a neighbouring stand-in; whether anything is new.

        For the brokers behind it, its data replaces ours: a later stand-in there may have asked again. About our own
        broker it may have testimonies to a former stand-in, from witnesses that are not asked again.
        """
        told = dict(members)
        behind = _reached(stand_in, told, self.name)
        before = behind | self._behind(stand_in)
        beside = {node: near for node, near in self.members.items() if node not in before}
        kept = [each for each in self.testimonies if each.about not in before]
        known = {*map(_key, kept), *((self.name, asked) for asked in self.members[self.name])}
        more = [each for each in testimonies if each.about in {*behind, self.name} and _key(each) not in known]
        return self._become(beside | {node: told[node] for node in behind}, [*kept, *more])

    def forget(self, member: Node) -> bool:
        """A member's stand-in died: its neighbours testify to the next one, perhaps with more. Strangers do not."""
        kept = [each for each in self.testimonies if each.about != member or not each.is_linked]
        return self._become(self.members, kept)

    def _become(self, members: Mapping[Node, list[Node]], testimonies: Iterable[Testimony]) -> bool:
        before = self.members, self.testimonies
        self.members, self.testimonies = dict(sorted(members.items())), sorted(testimonies, key=_key)
        return before != (self.members, self.testimonies)

    @property
    def neighbours(self) -> list[Node]:
        return [node for node in self.members[self.name] if node not in self.strangers]

    @property
    def strangers(self) -> list[Node]:
        """Witnesses that turned out not to be neighbours of the broker, as the tree was changing."""
        return [each.witness for each in self.testimonies if each.about == self.name and not each.is_linked]

    @property
    def witnesses(self) -> dict[Node, Testimony]:
        """The living neighbours of the broker itself."""
        return {each.witness: each for each in self._linked if each.about == self.name}

    @property
    def _linked(self) -> list[Testimony]:
        return [each for each in self.testimonies if each.is_linked]

    @property
    def awaited(self) -> list[tuple[Node, Node]]:
        """(witness, member) pairs without a testimony; dead witnesses are not expected."""
        heard = {(each.witness, each.about) for each in self.testimonies}
        return [
            (neighbour, member)
            for member, neighbours in self.members.items()
            for neighbour in neighbours
            if (neighbour, member) not in heard and neighbour not in self.members
        ]

    def towards(self, parent: Node) -> Node | None:
        """The neighbour towards the root. `parent`: that of the dead broker."""
        beyond = {each.witness: each.beyond for each in self.testimonies if each.about == self.name}
        return beyond.get(parent, "") or parent or None

    # Tables --------------------------------------------------------------------------------------------------

    def hop(self, testimony: Testimony) -> Node:
        """The neighbour that leads to the witness, or the witness itself."""
        if testimony.about == self.name:
            return testimony.witness if testimony.is_linked else testimony.beyond
        return next(stand_in for stand_in in self.neighbours if testimony.about in self._behind(stand_in))

    def _behind(self, stand_in: Node) -> frozenset[Node]:
        """The dead brokers on that side."""
        return _reached(stand_in, self.members, self.name)

    def rewiring(self, parent: Node) -> Rewiring:
        """The tables of the dead broker; its clients' subscriptions as far as it had exported them."""
        links = {}
        for neighbour in self.neighbours:
            witness = self.witnesses.get(neighbour)
            if witness:
                links[neighbour] = NewLink(received=unpacked(witness.told), told=unpacked(witness.has))
            else:
                links[neighbour] = NewLink(self.told_behind(neighbour), self.told_elsewhere(neighbour))
        return Rewiring((), links, {ABSENT: self.orphaned()}, parent=self.towards(parent), settle=True)

    def told_behind(self, neighbour: Node) -> dict[Layer, frozenset[Entry]]:
        """Entries that witnesses on that side had sent to the dead part."""
        return _union(each.told for each in self._linked if self.hop(each) == neighbour)

    def told_elsewhere(self, neighbour: Node) -> dict[Layer, frozenset[Entry]]:
        return _union(each.told for each in self._linked if self.hop(each) != neighbour)

    def orphaned(self) -> dict[Layer, frozenset[Entry]]:
        """Entries that the dead part had sent to a witness and no other witness asked for: those of its own clients."""
        found: dict[Layer, frozenset[Entry]] = dict.fromkeys(Layer, frozenset())
        for testimony in self._linked:
            others = _union(each.told for each in self._linked if each is not testimony)
            for layer, entries in unpacked(testimony.has).items():
                found[layer] |= entries - others[layer]
        return found

    # Events --------------------------------------------------------------------------------------------------

    def accounts(self) -> dict[Node, Account]:
        """The journals; from strangers only events that no neighbour sent."""
        sent = {e.event.id for each in self._linked for e in each.entries if isinstance(e, Sent)}
        accounts = {}
        for each in self.testimonies:
            own = [e for e in each.entries if each.is_linked or isinstance(e, Got) or e.event.id not in sent]
            accounts[_named(each)] = Account(each.marks, own)
        return accounts

    def hops(self) -> dict[Node, Node]:
        """Per account, the neighbour from which its events would have arrived."""
        return {_named(each): self.hop(each) for each in self.testimonies}

    def has(self) -> dict[Node, Marks]:
        """Per witness, marks of events that must not be sent to it: received, or passed before those received."""
        return {each.witness: _known(each) for each in self._linked}

    def got(self) -> dict[Node, Marks]:
        return {each.witness: _got(each) for each in self._linked}

    def seen(self) -> Marks:
        """Marks of events that any witness has received."""
        return marks_of(event for each in self.testimonies for event in _got(each).values())

    def heard_elsewhere(self, neighbour: Node) -> list[EventId]:
        """Marks of events heard of on other sides of the dead broker, and of those the neighbour handed over."""
        others = [event for each in self.testimonies if self.hop(each) != neighbour for event in each.heard]
        return in_order(marks_of([*others, *self._received_from(neighbour).values()]))

    def inherited(self) -> Mapping[Node, list[EventId]]:
        """Marks of events received from each neighbour: those that others received, and those it handed over."""
        return {neighbour: in_order(self._received_from(neighbour)) for neighbour in self.neighbours}

    def _received_from(self, neighbour: Node) -> Marks:
        elsewhere = [e for each in self.testimonies if self.hop(each) != neighbour for e in _got(each).values()]
        behind = [each for each in self.testimonies if self.hop(each) == neighbour]
        handed = [entry.event.id for each in behind for entry in each.entries if isinstance(entry, Sent)]
        return marks_of([*elsewhere, *handed])


def _key(testimony: Testimony) -> tuple[Node, Node]:
    return testimony.about, testimony.witness


def _reached(start: Node, members: Mapping[Node, list[Node]], without: Node) -> frozenset[Node]:
    found, waiting = {without}, [start]
    while waiting:
        member = waiting.pop()
        if member in members and member not in found:
            found.add(member)
            waiting += members[member]
    return frozenset(found - {without})


def _named(testimony: Testimony) -> Node:
    """A neighbour of one dead broker may be a stranger to another, and testifies about both."""
    return testimony.witness if testimony.is_linked else f"{testimony.witness}, a stranger to {testimony.about}"


def _got(testimony: Testimony) -> Marks:
    return marks_of([*testimony.marks, *(each.event for each in testimony.entries if isinstance(each, Got))])


def _known(testimony: Testimony) -> Marks:
    return marks_of([*_got(testimony).values(), *testimony.heard])


def _union(tables: Iterable[list[TableEntries]]) -> dict[Layer, frozenset[Entry]]:
    found: dict[Layer, frozenset[Entry]] = dict.fromkeys(Layer, frozenset())
    for told in tables:
        for layer, entries in unpacked(told).items():
            found[layer] |= entries
    return found
