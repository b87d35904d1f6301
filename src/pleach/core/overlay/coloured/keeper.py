"""How one broker keeps its place in the tree (S1 Algorithms 9 to 15): recolouring, second chance, joining, root group.

               Recolour from the parent, Welcome
        ┌──────────────────────────────────────────┐
        ▼          nothing heard for ξ'            │          nobody before it in the group answers
     MEMBER ────────────────────────────────▶ SEEKING ─────────────────────────────────────────────▶ ROOT
        ▲                                                                                             │
        └───────────── Welcome: somebody before it in the group has come back ────────────────────────┘
     OUTSIDE: not of the tree, before it is added and after it was removed

Rule 1: a recolouring is taken only from the parent in the new colour, and over h links at most. Without the second half
        one that a fault has put on a cycle would go round for ever, and nobody on it would miss the root.
Rule 2: a child that has not acknowledged the last recolouring gets no other one, and is dropped.
Rule 3: who has a place to give points only at children that have acknowledged: those are of the tree.
Rule 4: the first of the group is root, whatever happens. Another one that is root asks those before it at each turn.
Rule 5: nothing but the tree's next recolouring says that a change is in effect. A joiner is taken into the new colour
        at once, and so takes part from then on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import replace

from pleach.core.effects import Concluded, Effect, Observe, Observed, Send, SetTimer
from pleach.core.messages import (
    Carried,
    Carry,
    Census,
    ColourStage,
    JoinTree,
    Message,
    Node,
    ParentChange,
    Recolour,
    RecolourAck,
    RequestRemove,
    Welcome,
)
from pleach.core.overlay.coloured.bounds import ColouredConfig
from pleach.core.overlay.coloured.planes import COLOURS, Planes
from pleach.core.overlay.coloured.requests import Answer, CensusState, RequestsState, TreeRequests
from pleach.core.overlay.coloured.trees import NOBODY
from pleach.errors import ProtocolError

TURN: Final = "coloured:turn"  # the timer: what it means depends on the phase


class ColouredPhase(StrEnum):
    OUTSIDE = "outside"
    MEMBER = "member"
    SEEKING = "seeking"
    ROOT = "root"


class ChildState(IntEnum):
    """What a broker knows of a child (S1: a flag)."""

    FRESH = 0  # taken in since the last recolouring
    ASKED = 1  # has got the last recolouring, and not answered
    CONFIRMED = 2


class KeeperState(msgspec.Struct, array_like=True):
    """`depth`: links from the root. `due`: when the timer is. `asking`: whose turn it is in the group.

    `lost`: the parent that was not heard of. `leaving`: the operation by which an operator has this broker leave; no
    recolouring makes it leave otherwise, whatever a fault has put into it.
    """

    phase: ColouredPhase
    root: Node
    depth: int = 0
    due: float = 0.0
    asking: int = 0
    lost: Node = NOBODY
    leaving: str = ""
    standing: dict[Node, ChildState] = msgspec.field(default_factory=dict)
    census: CensusState = msgspec.field(default_factory=CensusState)
    requests: RequestsState = msgspec.field(default_factory=RequestsState)


class KeeperReaction(NamedTuple):
    """`turned`: the recolouring that the colours have just followed. `has_begun`: the new plane has, in any case."""

    effects: Sequence[Effect] = ()
    turned: Recolour | None = None
    has_begun: bool = False


NOTHING: Final = KeeperReaction()
KEPT: Final = (ChildState.FRESH, ChildState.CONFIRMED)


class Keeper:
    def __init__(self, name: Node, colouring: ColouredConfig, planes: Planes, phase: ColouredPhase) -> None:
        self._name = name
        self._colouring = colouring
        self._planes = planes
        self._requests = TreeRequests(name, colouring.group, colouring.height)
        self._rank = colouring.group.index(name) if name in colouring.group else len(colouring.group)
        standing = dict.fromkeys(planes.of(ColourStage.NEW).children, ChildState.FRESH)
        self._state = KeeperState(phase, colouring.group[0], due=self._limit(phase), standing=standing)

    @property
    def phase(self) -> ColouredPhase:
        return self._state.phase

    @property
    def leaving(self) -> str:
        """The operation by which this broker leaves the tree, or has left it."""
        return self._state.leaving

    def handle(self, sender: Node, message: Message, now: float) -> KeeperReaction:
        match message:
            case Recolour():
                return self._recoloured(sender, message, now)
            case RecolourAck():
                return self._acknowledged(sender)
            case Census(brokers):
                return self._heard(sender, brokers)
            case JoinTree():
                return self._asked_for_place(message, now)
            case Welcome():
                return self._welcomed(sender, message, now)
            case Carry():
                return self._carry(message)
            case Carried(operation, refusal):
                return KeeperReaction([self._concluded(operation, refusal)])
            case _:
                raise ProtocolError(self._name, sender, message, f"the keeper of a {self.phase} does not know it")

    # Recolouring ---------------------------------------------------------------------------------------------

    def _recoloured(self, sender: Node, recolour: Recolour, now: float) -> KeeperReaction:
        built = self._planes.of(ColourStage.NEW)
        if sender != built.parent or recolour.hops > self._colouring.height or self._is_first:
            return NOTHING
        self._state.root, self._state.depth = recolour.root, recolour.hops
        seen = self._enter(ColouredPhase.MEMBER)
        turned = self._turn(recolour)
        return KeeperReaction([Send(sender, RecolourAck()), *seen, *turned, *self._reset(now)], recolour)

    def _turn(self, recolour: Recolour) -> list[Effect]:
        """Follow a recolouring, and pass it on."""
        built, name = self._planes.of(ColourStage.NEW), self._name
        standing = self._state.standing
        built.children = [child for child in built.children if standing.get(child) in KEPT]
        parent, children = _moved(name, built.parent, built.children, recolour.moves)
        self._planes.turn(recolour.colour, parent, children)
        self._state.standing = dict.fromkeys(built.children, ChildState.ASKED)
        self._state.standing |= {child: ChildState.FRESH for child in children if child not in built.children}
        self._state.census = CensusState()
        if self._state.leaving and ParentChange(name, NOBODY) in recolour.moves:
            self._enter(ColouredPhase.OUTSIDE)
        onward = replace(recolour, hops=recolour.hops + 1)
        passed_on = [Send(child, onward) for child in built.children]
        return [*passed_on, *self._welcomes(recolour.moves), *self._counted()]

    def _welcomes(self, moves: list[ParentChange]) -> list[Send]:
        """To brokers that are new here: no recolouring has come to them."""
        welcome = Welcome(self._planes.colour, self._state.root, moves)
        return [Send(move.broker, welcome) for move in moves if move.is_new and move.parent == self._name]

    def _acknowledged(self, sender: Node) -> KeeperReaction:
        if sender in self._planes.of(ColourStage.CURRENT).children:
            self._state.standing[sender] = ChildState.CONFIRMED
        return NOTHING

    def _heard(self, sender: Node, brokers: list[tuple[Node, Node]]) -> KeeperReaction:
        if sender not in self._planes.of(ColourStage.CURRENT).children:
            return NOTHING
        self._state.census.heard[sender] = brokers
        return KeeperReaction(self._counted())

    def _counted(self) -> list[Send]:
        """Tell the parent of the tree from here on, once all of it is known. The root keeps it."""
        current = self._planes.of(ColourStage.CURRENT)
        whole = self._state.census.whole(self._name, current.parent, current.children)
        return [Send(current.parent, Census(whole))] if whole and current.parent is not None else []

    # Time ----------------------------------------------------------------------------------------------------

    def timer(self, now: float) -> KeeperReaction:
        match self._state.phase:
            case ColouredPhase.ROOT:
                return self._tick(now)
            case ColouredPhase.MEMBER:
                self._state.lost = self._planes.of(ColourStage.NEW).parent or NOBODY
                return self._seek(0, now)
            case ColouredPhase.SEEKING:
                return self._seek(self._state.asking + 1, now)
            case ColouredPhase.OUTSIDE:
                return NOTHING

    def _tick(self, now: float) -> KeeperReaction:
        """The root begins a recolouring."""
        current = self._planes.of(ColourStage.CURRENT)
        known = self._state.census.whole(self._name, None, current.children)
        turn = self._requests.turn(None if known is None else dict(known))
        self._planes.of(ColourStage.NEW).parent = None
        self._state.root, self._state.depth = self._name, 0
        colour = (self._planes.colour + 1) % COLOURS
        recolour = Recolour(colour, self._name, 0, turn.is_changed, list(turn.moves))
        effects = [*self._turn(recolour), *self._answered(turn.answers), *self._probe(), *self._reset(now)]
        return KeeperReaction(effects, recolour)

    def _reset(self, now: float) -> list[Effect]:
        after = self._limit(self._state.phase)
        self._state.due = now + after
        return [] if self._state.phase is ColouredPhase.OUTSIDE else [SetTimer(TURN, after, is_upkeep=True)]

    def _limit(self, phase: ColouredPhase) -> float:
        match phase:
            case ColouredPhase.ROOT:
                return self._colouring.period
            case ColouredPhase.SEEKING:
                return self._colouring.answer
            case _:
                return self._colouring.timeout

    def resume(self, now: float) -> list[Effect]:
        """Set the timer again; one that a fault has set to anything is due within its limit."""
        if self._state.phase is ColouredPhase.OUTSIDE:
            return []
        left, limit = self._state.due - now, self._limit(self._state.phase)
        after = max(0.0, left) if math.isfinite(left) and left <= limit else limit
        return [SetTimer(TURN, after, is_upkeep=True)]

    # Joining, and the root group -----------------------------------------------------------------------------

    @property
    def _is_first(self) -> bool:
        return self._rank == 0

    def _seek(self, index: int, now: float) -> KeeperReaction:
        """Ask the next of the group for a place; who has asked all before it is root."""
        group = self._colouring.group
        index %= len(group)
        if group[index] == self._name:
            return self._take_over(now)
        seen = self._enter(ColouredPhase.SEEKING)
        self._state.asking = index
        asked = Send(group[index], JoinTree(self._name, self._state.lost, 0, is_root=False))
        return KeeperReaction([*seen, asked, *self._reset(now)])

    def _take_over(self, now: float) -> KeeperReaction:
        seen = self._enter(ColouredPhase.ROOT)
        for stage in ColourStage:
            self._planes.of(stage).parent = None
        effects, turned, _ = self._tick(now)
        return KeeperReaction([*seen, *effects], turned)

    def _probe(self) -> list[Send]:
        """Ask one of those before this root in the group, each time another one."""
        if self._is_first:
            return []
        self._state.asking = (self._state.asking + 1) % self._rank
        return [Send(self._colouring.group[self._state.asking], JoinTree(self._name, NOBODY, 0, is_root=True))]

    def _asked_for_place(self, join: JoinTree, now: float) -> KeeperReaction:
        if self._state.phase is ColouredPhase.OUTSIDE:
            return NOTHING
        if self._succeeds(join):
            effects, turned, _ = self._take_over(now)
            return KeeperReaction([*effects, *self._adopt(join.joiner)], turned)
        height = self._colouring.height
        is_ours = join.joiner in (self._name, self._planes.of(ColourStage.NEW).parent)
        if is_ours or join.hops > height or self._state.depth >= height:
            return NOTHING
        further = self._pointer(join)
        if further is not None:
            return KeeperReaction([Send(further, replace(join, hops=join.hops + 1))])
        return KeeperReaction(self._adopt(join.joiner))

    def _succeeds(self, join: JoinTree) -> bool:
        """Whether the root of this broker's tree asks, and should not be root while this broker is there."""
        group = self._colouring.group
        is_before = join.joiner in group and self._rank < group.index(join.joiner)
        return (
            join.is_root and is_before and self._state.phase is ColouredPhase.MEMBER and self._state.root == join.joiner
        )

    def _pointer(self, join: JoinTree) -> Node | None:
        """Whom to ask instead (S1 Algorithm 15): None where there is room, or nobody else."""
        children, standing = self._planes.of(ColourStage.NEW).children, self._state.standing
        others = [c for c in children if standing.get(c) is ChildState.CONFIRMED and c not in (join.joiner, join.avoid)]
        has_room = len(children) < self._colouring.degree or join.joiner in children
        is_last = self._state.depth + 1 >= self._colouring.height  # children of a child would be too far from the root
        if not others or is_last or (has_room and join.avoid != self._name):
            return None
        return others[crc32(join.joiner.encode()) % len(others)]

    def _adopt(self, child: Node) -> list[Send]:
        self._state.standing[child] = ChildState.FRESH
        told = self._planes.tinted(ColourStage.NEW, self._planes.of(ColourStage.NEW).adopt(child))
        return [Send(child, Welcome(self._planes.colour, self._state.root)), *told]

    def _welcomed(self, sender: Node, welcome: Welcome, now: float) -> KeeperReaction:
        if self._state.phase is ColouredPhase.MEMBER or self._is_first:
            return NOTHING
        dismissed = self._answered(self._requests.dismiss())
        seen = self._enter(ColouredPhase.MEMBER)
        self._state.root, self._state.lost = welcome.root, NOBODY
        former = self._planes.of(ColourStage.NEW).children
        _, children = _moved(self._name, sender, former, welcome.moves)
        self._state.standing |= {child: ChildState.FRESH for child in children if child not in former}
        self._planes.colour = welcome.colour % COLOURS
        self._planes.begin(sender, [child for child in children if child != sender])
        return KeeperReaction([*dismissed, *seen, *self._welcomes(welcome.moves), *self._reset(now)], has_begun=True)

    def _enter(self, phase: ColouredPhase) -> list[Effect]:
        """Whoever misses the root, and whoever is root, is noted in the trace."""
        former, self._state.phase = self._state.phase, phase
        return [Observe(Observed.STATE, detail=f"coloured: {phase}")] if phase is not former else []

    # Requests ------------------------------------------------------------------------------------------------

    def _carry(self, carry: Carry) -> KeeperReaction:
        """To be carried out: by this broker, if it is root, else by whom it takes for it."""
        if carry.asked == self._name and isinstance(carry.request, RequestRemove):
            self._state.leaving = carry.request.operation
        if self._state.phase is ColouredPhase.ROOT:
            return KeeperReaction(self._answered(self._requests.ask(carry)))
        if carry.asked == self._name:
            return KeeperReaction([Send(self._state.root, carry)])
        refusal = f"{self._name} is not the root any more; ask again"
        return KeeperReaction([Send(carry.asked, Carried(carry.request.operation, refusal))])

    def _answered(self, answers: Sequence[Answer]) -> list[Effect]:
        return [
            self._concluded(end.operation, end.refusal) if asked == self._name else Send(asked, end)
            for asked, end in answers
        ]

    def _concluded(self, operation: str, refusal: str) -> Concluded:
        if refusal and self._state.leaving == operation:
            self._state.leaving = ""
        return Concluded(operation, refusal)

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> KeeperState:
        return replace(self._state, requests=self._requests.state)

    def restore(self, state: KeeperState) -> None:
        self._state = state
        self._requests.state = state.requests
        if state.phase is ColouredPhase.ROOT and self._rank == len(self._colouring.group):
            self._state.phase = ColouredPhase.SEEKING  # it cannot be
        if self._is_first:
            self._state.phase = ColouredPhase.ROOT


def _moved(
    name: Node, parent: Node | None, children: Sequence[Node], moves: Sequence[ParentChange]
) -> tuple[Node | None, list[Node]]:
    """This broker's pointers in the next tree (S1: applyReconfig)."""
    after = dict.fromkeys(children)
    for move in moves:
        if move.broker == name:
            parent = move.parent or None
        elif move.parent == name:
            after[move.broker] = None
        else:
            after.pop(move.broker, None)
    return parent, [child for child in after if child != parent]
