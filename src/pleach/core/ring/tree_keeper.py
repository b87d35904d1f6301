"""Keeps a host's neighbours in the tree right, by what the ring says (S3 §3.4).

    SETTLED ── own keys changed, TreeUnlink, ──▶ SURVEYING ── all looked up ──▶ SETTLED: what is new gets TreeLink,
            ◀─ TreeLink of a stranger,                 │                                 what is not any more TreeUnlink
               a neighbour is silent                   └── not found ──▶ DUE ── next check ──▶ SURVEYING

Rule 1: whoever takes a host for a neighbour says so to it, and says so when that ends: the symmetric difference of S3.
Rule 2: a link is agreed on when both say it, in the same roles. Where they differ, both look again.
Rule 3: neighbours are asked again and again: that is how a failure is seen, and how a lost message is made good.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pleach.core.effects import SetTimer
from pleach.core.messages import Peer, TreeLink, TreeLinkAnswer, TreeUnlink
from pleach.core.ring.config import RingConfig, phase_of
from pleach.core.ring.effects import Asker, Cast, OwnerFound, OwnerNotFound, Purpose, RingEffect, TreeNeighbours
from pleach.core.ring.keys import Arc
from pleach.core.ring.lookups import Lookups, Mode
from pleach.core.ring.pending_answers import PendingAnswers
from pleach.core.ring.reference_tree import reference_tree
from pleach.core.ring.survey import HostArc, Neighbourhood, Wanted, survey
from pleach.core.ring.view import RingView

CHECK: Final = "ring:tree"
LOOKUPS_MAX: Final = 500  # of one survey; the ring changes faster than it can be looked at


class KeeperPhase(StrEnum):
    SETTLED = "settled"
    SURVEYING = "surveying"
    DUE = "due"


class Linked(msgspec.Struct, frozen=True):
    """A neighbour that has been told, and has not answered."""

    peer: Peer


class TreeKeeper:
    def __init__(self, config: RingConfig, view: RingView, requests: PendingAnswers[object], lookups: Lookups) -> None:
        self.standing = KeeperPhase.DUE
        self.neighbourhood = Neighbourhood()
        self._config = config
        self._tree = reference_tree(config.circle, config.degree)
        self._view = view
        self._requests = requests
        self._lookups = lookups
        self._survey_number = 0  # answers to earlier ones come too late
        self._known: dict[Peer, Arc] = {}
        self._asked: set[int] = set()
        self._looked_up = 0
        self._surveyed_at = 0.0

    # Surveys -------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> list[RingEffect]:
        self.standing = KeeperPhase.SURVEYING
        self._survey_number += 1
        self._known.clear()
        self._asked.clear()
        self._looked_up = 0
        self._surveyed_at = now
        return self._go_on(now)

    def found(self, found: OwnerFound | OwnerNotFound, now: float) -> list[RingEffect]:
        if self.standing is not KeeperPhase.SURVEYING or found.purpose.number != self._survey_number:
            return []
        if isinstance(found, OwnerNotFound):
            self.standing = KeeperPhase.DUE
            return []
        self._asked.discard(found.key)
        self._known[found.owner] = Arc(self._view.circle, found.low, found.owner.key)
        return self._go_on(now)

    def _go_on(self, now: float) -> list[RingEffect]:
        match survey(self._tree, self._view.arc, [HostArc(*known) for known in self._known.items()]):
            case Neighbourhood() as neighbourhood:
                return self._settle(neighbourhood, now)
            case Wanted(keys):
                return self._look_up([key for key in keys if key not in self._asked], now)

    def _look_up(self, keys: list[int], now: float) -> list[RingEffect]:
        self._looked_up += len(keys)
        if self._looked_up > LOOKUPS_MAX:
            self.standing = KeeperPhase.DUE
            return []
        self._asked.update(keys)
        purpose = Purpose(Asker.TREE, self._survey_number)
        return [effect for key in keys for effect in self._lookups.start(key, purpose, Mode.RECURSIVE, now)]

    def _settle(self, neighbourhood: Neighbourhood, now: float) -> list[RingEffect]:
        before, self.neighbourhood = self.neighbourhood, neighbourhood
        self.standing = KeeperPhase.SETTLED
        if neighbourhood == before:
            return []
        gone = [peer for peer in before.all if peer not in neighbourhood.all]
        changed = [peer for peer in neighbourhood.all if _role(before, peer) != _role(neighbourhood, peer)]
        return [
            *(Cast(peer, TreeUnlink()) for peer in gone),
            *(self._link(peer, now) for peer in changed),
            TreeNeighbours(neighbourhood.parent, neighbourhood.children),
        ]

    def _link(self, peer: Peer, now: float) -> Cast:
        ticket = self._requests.issue(Linked(peer), self._config.answer_within, now)
        return Cast(peer, TreeLink(ticket, self._view.me, is_parent=peer == self.neighbourhood.parent))

    # What neighbours say ---------------------------------------------------------------------------------------

    def linked(self, message: TreeLink, now: float) -> list[RingEffect]:
        role = _role(self.neighbourhood, message.origin)
        agrees = role is (TreeRole.CHILD if message.is_parent else TreeRole.PARENT)
        answer = Cast(message.origin, TreeLinkAnswer(message.ticket, agrees))
        return [answer] if agrees else [answer, *self.begin(now)]

    def answered(self, message: TreeLinkAnswer) -> list[RingEffect]:
        """The other side looks again, and so do I at the next check: by then it may have found me."""
        linked = self._requests.take(message.ticket)
        if isinstance(linked, Linked) and not message.agrees and self.standing is KeeperPhase.SETTLED:
            self.standing = KeeperPhase.DUE
        return []

    def unlinked(self, sender: str, now: float) -> list[RingEffect]:
        return self.begin(now) if any(peer.name == sender for peer in self.neighbourhood.all) else []

    def no_answer(self, linked: Linked, now: float) -> list[RingEffect]:
        return self.begin(now) if linked.peer in self.neighbourhood.all else []

    # Checks --------------------------------------------------------------------------------------------------

    def first_check(self) -> SetTimer:
        return SetTimer(CHECK, phase_of(self._view.me.name, self._config.check_tree_every), is_upkeep=True)

    def check(self, now: float) -> list[RingEffect]:
        again = SetTimer(CHECK, self._config.check_tree_every, is_upkeep=True)
        if self.standing is KeeperPhase.SETTLED and now - self._surveyed_at < self._config.survey_every:
            return [*(self._link(peer, now) for peer in self.neighbourhood.all), again]
        if self.standing is KeeperPhase.SURVEYING:
            return [again]
        return [*self.begin(now), again]

    def leave(self) -> list[RingEffect]:
        neighbours, self.neighbourhood = self.neighbourhood.all, Neighbourhood()
        return [Cast(peer, TreeUnlink()) for peer in neighbours]

    def restore(self, neighbourhood: Neighbourhood) -> None:
        """As of before a restart: to be looked at again, and to be taken leave of if it has changed."""
        self.neighbourhood = neighbourhood
        self.standing = KeeperPhase.DUE


class TreeRole(StrEnum):
    NONE = "none"
    PARENT = "parent"
    CHILD = "child"


def _role(neighbourhood: Neighbourhood, peer: Peer) -> TreeRole:
    if peer == neighbourhood.parent:
        return TreeRole.PARENT
    return TreeRole.CHILD if peer in neighbourhood.children else TreeRole.NONE
