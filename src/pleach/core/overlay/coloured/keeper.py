"""The keeper of a broker's position in the tree (S1 Algorithms 9 to 15): recolouring, joining, root group.

               Recolour from the parent, Welcome
        ┌──────────────────────────────────────────┐
        ▼          no recolouring for ξ'          │          no broker before it in the group answers
     MEMBER ────────────────────────────────▶ SEEKING ─────────────────────────────────────────────▶ ROOT
        ▲                                                                                             │
        └───────────── Welcome from a broker before it in the group          ────────────────────────┘
     OUTSIDE: not in the tree, before it is added and after it was removed

Rule 1: a recolouring is accepted only from the parent in the new colour, and over h links at most. Without the bound,
        one that a fault put on a cycle would circulate for ever, and no broker on it would miss the root.
Rule 2: a child that has not acknowledged the last recolouring is dropped and gets no other one.
Rule 3: a broker forwards joiners only to children that have acknowledged: those are in the tree.
Rule 4: the first of the group is always root. Another root asks those before it at each recolouring.
Rule 5: a change is in effect with the tree's next recolouring. A joiner is accepted into the new colour at once and
        takes part from then on.
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

TURN: Final = "coloured:turn"  # the timer; its meaning depends on the phase


class ColouredPhase(StrEnum):
    OUTSIDE = "outside"
    MEMBER = "member"
    SEEKING = "seeking"
    ROOT = "root"


class ChildState(IntEnum):
    """The state of a child (S1: a flag)."""

    FRESH = 0  # accepted since the last recolouring
    ASKED = 1  # the last recolouring was sent and not acknowledged
    CONFIRMED = 2


class KeeperState(msgspec.Struct, array_like=True):
    """`depth`: links from the root. `due`: time of the timer. `asking`: index of the asked broker in the group.

    `lost`: the parent that went silent. `leaving`: the operator's operation by which this broker leaves; without it, no
    recolouring, which may be damaged, makes it leave.
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
    """`turned`: the recolouring that was just carried out. `has_begun`: the new plane was started without one."""

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
        """The operation by which this broker leaves or has left the tree."""
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
                raise ProtocolError(self._name, sender, message, f"not a message for a keeper that is {self.phase}")

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
        """Carry out a recolouring, and forward it."""
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
        """To new brokers, which get no recolouring."""
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
        """Report the subtree to the parent once it is complete. The root keeps it."""
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
        """Set the timer again; a damaged one is due within its limit."""
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
        """Ask the next of the group for a parent; a member that has asked all before it becomes root."""
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
        """Ask one of those before this root in the group, in turn."""
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
        """Whether the asking root must yield to this broker, which precedes it in the group."""
        group = self._colouring.group
        is_before = join.joiner in group and self._rank < group.index(join.joiner)
        return (
            join.is_root and is_before and self._state.phase is ColouredPhase.MEMBER and self._state.root == join.joiner
        )

    def _pointer(self, join: JoinTree) -> Node | None:
        """The child to forward a joiner to (S1 Algorithm 15); None where there is room, or no such child."""
        children, standing = self._planes.of(ColourStage.NEW).children, self._state.standing
        others = [c for c in children if standing.get(c) is ChildState.CONFIRMED and c not in (join.joiner, join.avoid)]
        has_room = len(children) < self._colouring.degree or join.joiner in children
        is_last = self._state.depth + 1 >= self._colouring.height  # grandchildren would be too far from the root
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
        """Changes of the phase are observed in the trace."""
        former, self._state.phase = self._state.phase, phase
        return [Observe(Observed.STATE, detail=f"coloured: {phase}")] if phase is not former else []

    # Requests ------------------------------------------------------------------------------------------------

    def _carry(self, carry: Carry) -> KeeperReaction:
        """Handle a request if this broker is root, else send it to the root."""
        if carry.asked == self._name and isinstance(carry.request, RequestRemove):
            operation, first = carry.request.operation, self._state.leaving
            if first:  # a second one would be answered before the first is over, and end it
                return KeeperReaction([Concluded(operation, f"{self._name} leaves already, by operation {first}")])
            self._state.leaving = operation
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
            self._state.phase = ColouredPhase.SEEKING  # not a member of the group
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
