"""What is known of a dead broker: the testimonies of its neighbours, and of those behind neighbours that are dead too.

Dead brokers that are neighbours of each other have stand-ins that know nothing of each other. They pool what they
have gathered, so that each has the testimonies of all living neighbours of the whole dead part, and computes from them
alone what the dead part knew: as if it had been one broker. All get the same, since all have the same.
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

ABSENT: Final = " absent clients"  # no node is named like this: it has a blank


class Pool(msgspec.Struct, array_like=True):
    """`name`: the broker whose stand-in this is. `members`: the dead ones with their neighbours, as far as known."""

    name: Node
    members: dict[Node, list[Node]]
    testimonies: list[Testimony] = []

    def hear(self, testimony: Testimony) -> bool:
        """From the witness itself; whether it is new. If it testifies again, of another life, the last word counts."""
        others = [each for each in self.testimonies if _key(each) != _key(testimony)]
        return self._become(self.members, [*others, testimony])

    def learn(self, mate: Node, members: Iterable[tuple[Node, list[Node]]], testimonies: Iterable[Testimony]) -> bool:
        """From the stand-in next to us; whether anything is new.

        What lies behind it, it knows best: there a later life may have asked anew. Of ourselves it may know what those
        have told our former life who are not asked again.
        """
        told = dict(members)
        behind = _reached(mate, told, self.name)
        before = behind | self._behind(mate)
        beside = {node: near for node, near in self.members.items() if node not in before}
        kept = [each for each in self.testimonies if each.about not in before]
        known = {*map(_key, kept), *((self.name, asked) for asked in self.members[self.name])}
        more = [each for each in testimonies if each.about in {*behind, self.name} and _key(each) not in known]
        return self._become(beside | {node: told[node] for node in behind}, [*kept, *more])

    def forget(self, member: Node) -> bool:
        """It has died again: its neighbours tell its next stand-in, and may have more to tell. Strangers do not."""
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
        """Who turned out to be no neighbour of the broker itself: the tree was changing."""
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
        """Who has not testified yet, and of whom; nobody has to who is dead as well."""
        heard = {(each.witness, each.about) for each in self.testimonies}
        return [
            (neighbour, member)
            for member, neighbours in self.members.items()
            for neighbour in neighbours
            if (neighbour, member) not in heard and neighbour not in self.members
        ]

    def towards(self, parent: Node) -> Node | None:
        """The neighbour towards the root. `parent`: who it was for the dead broker."""
        beyond = {each.witness: each.beyond for each in self.testimonies if each.about == self.name}
        return beyond.get(parent, "") or parent or None

    # Tables --------------------------------------------------------------------------------------------------

    def hop(self, testimony: Testimony) -> Node:
        """The neighbour behind which the witness is, or which it is."""
        if testimony.about == self.name:
            return testimony.witness if testimony.is_linked else testimony.beyond
        return next(mate for mate in self.neighbours if testimony.about in self._behind(mate))

    def _behind(self, mate: Node) -> frozenset[Node]:
        """The dead brokers on that side."""
        return _reached(mate, self.members, self.name)

    def rewiring(self, parent: Node) -> Rewiring:
        """Tables as the dead broker had them; in place of its clients' wishes, what it had told others of them."""
        links = {}
        for neighbour in self.neighbours:
            witness = self.witnesses.get(neighbour)
            if witness:
                links[neighbour] = NewLink(received=unpacked(witness.told), told=unpacked(witness.has))
            else:
                links[neighbour] = NewLink(self.told_behind(neighbour), self.told_elsewhere(neighbour))
        return Rewiring((), links, {ABSENT: self.orphaned()}, parent=self.towards(parent), settle=True)

    def told_behind(self, neighbour: Node) -> dict[Layer, frozenset[Entry]]:
        """What the witnesses on that side had told the dead part."""
        return _union(each.told for each in self._linked if self.hop(each) == neighbour)

    def told_elsewhere(self, neighbour: Node) -> dict[Layer, frozenset[Entry]]:
        return _union(each.told for each in self._linked if self.hop(each) != neighbour)

    def orphaned(self) -> dict[Layer, frozenset[Entry]]:
        """What the dead part had told a witness, and no other witness had asked for: its own clients had."""
        found: dict[Layer, frozenset[Entry]] = dict.fromkeys(Layer, frozenset())
        for testimony in self._linked:
            others = _union(each.told for each in self._linked if each is not testimony)
            for layer, entries in unpacked(testimony.has).items():
                found[layer] |= entries - others[layer]
        return found

    # Events --------------------------------------------------------------------------------------------------

    def accounts(self) -> dict[Node, Account]:
        """The journals; of those that are no neighbours what no neighbour has sent: it is older than what all have."""
        sent = {e.event.id for each in self._linked for e in each.entries if isinstance(e, Sent)}
        accounts = {}
        for each in self.testimonies:
            own = [e for e in each.entries if each.is_linked or isinstance(e, Got) or e.event.id not in sent]
            accounts[_named(each)] = Account(each.marks, own)
        return accounts

    def hops(self) -> dict[Node, Node]:
        """Per account, the neighbour by which what it has sent would have come."""
        return {_named(each): self.hop(each) for each in self.testimonies}

    def has(self) -> dict[Node, Marks]:
        """Per witness what must not be sent to it: what it has got, and what was passed by before what it has got."""
        return {each.witness: _known(each) for each in self._linked}

    def got(self) -> dict[Node, Marks]:
        return {each.witness: _got(each) for each in self._linked}

    def seen(self) -> Marks:
        """What anybody has got."""
        return marks_of(event for each in self.testimonies for event in _got(each).values())

    def heard_elsewhere(self, neighbour: Node) -> list[EventId]:
        """What has been heard of on the other sides of the dead broker, and what the neighbour has just handed over."""
        others = [event for each in self.testimonies if self.hop(each) != neighbour for event in each.heard]
        return in_order(marks_of([*others, *self._received_from(neighbour).values()]))

    def inherited(self) -> Mapping[Node, list[EventId]]:
        """What counts as received from each neighbour: what others have got, and what it has just handed over."""
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
    """A neighbour of one of the dead may be a stranger to another one, and testifies of both."""
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
