"""The root's part in reconfigurations (S1 §4.5.3, §4.5.5): it collects requests and carries them with a recolouring.

After each recolouring a census travels up from the leaves and tells the root the tree. Pending requests are judged when
the next recolouring begins: those that fit go along with it, those that contradict the tree or an earlier request are
refused. While the tree is unknown, all wait.

    requested ──▶ pending ──▶ carried by recolouring n ──▶ in effect with n + 1 ──▶ (a leaving broker: told at n + 2)
                     └─▶ refused
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pleach.core.messages import Carried, Carry, Node, ParentChange, RequestRemove
from pleach.core.overlay.coloured.trees import NOBODY, height, is_tree, moved, moves_between, requested
from pleach.errors import TopologyError

ROUNDS_MAX: Final = 8  # recolourings that a request waits for the tree to be known
PENDING_MAX: Final = 10_000
Answer = tuple[Node, Carried]


class CensusState(msgspec.Struct, array_like=True):
    """The reports of children about the current tree since the last recolouring."""

    heard: dict[Node, list[tuple[Node, Node]]] = msgspec.field(default_factory=dict)

    def whole(self, name: Node, parent: Node | None, children: Iterable[Node]) -> list[tuple[Node, Node]] | None:
        """The tree from here downwards, once all children have reported."""
        expected = list(children)
        if not all(child in self.heard for child in expected):
            return None
        below = [pair for child in expected for pair in self.heard[child]]
        return [(name, parent or NOBODY), *below]


class Pending(msgspec.Struct, array_like=True):
    carry: Carry
    rounds: int = 0


class Due(msgspec.Struct, array_like=True):
    """An answer that is due after some more recolourings."""

    asked: Node
    operation: str
    rounds: int


class RequestsState(msgspec.Struct, array_like=True):
    pending: list[Pending] = msgspec.field(default_factory=list)
    due: list[Due] = msgspec.field(default_factory=list)
    moves: list[ParentChange] = msgspec.field(default_factory=list)  # of the last recolouring


class RequestTurn(NamedTuple):
    """`is_changed`: the new current tree differs from the one before. `moves`: changes of the next one."""

    is_changed: bool
    moves: Sequence[ParentChange]
    answers: Sequence[Answer]


class TreeRequests:
    def __init__(self, name: Node, group: Sequence[Node], height_max: int) -> None:
        self._name = name
        self._group = group
        self._height_max = height_max
        self.state = RequestsState()

    def ask(self, carry: Carry) -> list[Answer]:
        if len(self.state.pending) >= PENDING_MAX:
            return [_answer(carry, "too many requests are waiting; ask again later")]
        self.state.pending.append(Pending(carry))
        return []

    def dismiss(self) -> list[Answer]:
        """This broker is no longer root: refuse all waiting requests."""
        waiting, self.state = self.state, RequestsState()
        refusal = "another root has taken over meanwhile; ask again"
        ended = [(due.asked, Carried(due.operation, refusal)) for due in waiting.due]
        return [*(_answer(pending.carry, refusal) for pending in waiting.pending), *ended]

    def turn(self, census: Mapping[Node, Node] | None) -> RequestTurn:
        """A recolouring begins. `census`: the tree that was current until now, if known."""
        former = self.state.moves
        answers = self._due()
        tree = moved(census, former) if census is not None else None
        if tree is None or not is_tree(tree, self._name):
            self.state.moves = []
            return RequestTurn(bool(former), [], [*answers, *self._wait()])
        after, judged = self._judge(tree, is_changing=bool(former))
        self.state.moves = moves_between(tree, after)
        return RequestTurn(bool(former), self.state.moves, [*answers, *judged])

    def _due(self) -> list[Answer]:
        for due in self.state.due:
            due.rounds -= 1
        told = [(due.asked, Carried(due.operation, "")) for due in self.state.due if due.rounds <= 0]
        self.state.due = [due for due in self.state.due if due.rounds > 0]
        return told

    def _wait(self) -> list[Answer]:
        for pending in self.state.pending:
            pending.rounds += 1
        given_up = [p.carry for p in self.state.pending if p.rounds >= ROUNDS_MAX]
        self.state.pending = [p for p in self.state.pending if p.rounds < ROUNDS_MAX]
        return [_answer(carry, "the tree is not complete; ask again once it is") for carry in given_up]

    def _judge(self, tree: dict[Node, Node], *, is_changing: bool) -> tuple[dict[Node, Node], list[Answer]]:
        """Apply the pending requests to the tree.

        A broker leaves only while the tree does not change, since it gets no further recolouring and must hold nothing;
        and one at a time, since its parent must stay.
        """
        refused: list[Answer] = []
        leaving = [pending for pending in self.state.pending if isinstance(pending.carry.request, RequestRemove)]
        waiting = leaving if is_changing else leaving[1:]
        for carry in [pending.carry for pending in self.state.pending if pending not in waiting]:
            try:
                tree = self._fitting(tree, carry)
            except TopologyError as error:
                refused.append(_answer(carry, str(error)))
                continue
            rounds = 2 if isinstance(carry.request, RequestRemove) else 1
            self.state.due.append(Due(carry.asked, carry.request.operation, rounds))
        self.state.pending = waiting
        return tree, refused

    def _fitting(self, tree: dict[Node, Node], carry: Carry) -> dict[Node, Node]:
        request = carry.request
        if isinstance(request, RequestRemove) and request.broker in self._group:
            raise TopologyError(f"{request.broker} is in the root group; remove it from the group first")
        after = requested(tree, carry.asked, request)
        if height(after) > self._height_max:
            raise TopologyError(f"the tree would be {height(after)} links high; `height` is {self._height_max}")
        return after


def _answer(carry: Carry, refusal: str) -> Answer:
    return carry.asked, Carried(carry.request.operation, refusal)
