"""The root's part in reconfigurations (S1 §4.5.3, §4.5.5): it collects requests and carries them with a recolouring.

It knows the tree because the tree tells it: after each recolouring a census comes up from the leaves. What is asked for
meanwhile is judged when the next one begins: what fits goes along with it, what contradicts the tree or a
request before it is refused, and while the tree is not known, all wait.

    asked for ──▶ pending ──▶ carried by recolouring n ──▶ in effect with n + 1 ──▶ (who leaves: told at n + 2)
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
    """What children have said of the current tree since the last recolouring."""

    heard: dict[Node, list[tuple[Node, Node]]] = msgspec.field(default_factory=dict)

    def whole(self, name: Node, parent: Node | None, children: Iterable[Node]) -> list[tuple[Node, Node]] | None:
        """The tree from here downwards, once all children have spoken."""
        expected = list(children)
        if not all(child in self.heard for child in expected):
            return None
        below = [pair for child in expected for pair in self.heard[child]]
        return [(name, parent or NOBODY), *below]


class Pending(msgspec.Struct, array_like=True):
    carry: Carry
    rounds: int = 0


class Due(msgspec.Struct, array_like=True):
    """Who is to be told after so many recolourings more."""

    asked: Node
    operation: str
    rounds: int


class RequestsState(msgspec.Struct, array_like=True):
    pending: list[Pending] = msgspec.field(default_factory=list)
    due: list[Due] = msgspec.field(default_factory=list)
    moves: list[ParentChange] = msgspec.field(default_factory=list)  # of the last recolouring


class RequestTurn(NamedTuple):
    """`is_changed`: the tree that is current from now on differs from that before. `moves`: how the next one does."""

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
        """This broker is root no longer; whoever waits is told."""
        waiting, self.state = self.state, RequestsState()
        refusal = "another root has taken over meanwhile; ask again"
        ended = [(due.asked, Carried(due.operation, refusal)) for due in waiting.due]
        return [*(_answer(pending.carry, refusal) for pending in waiting.pending), *ended]

    def turn(self, census: Mapping[Node, Node] | None) -> RequestTurn:
        """A recolouring begins. `census`: the tree that was current until now."""
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
        return [_answer(carry, "the tree is not whole; ask again once it is") for carry in given_up]

    def _judge(self, tree: dict[Node, Node], *, is_changing: bool) -> tuple[dict[Node, Node], list[Answer]]:
        """Nobody leaves while the tree changes: who goes gets no other recolouring, and must hold nothing by then.

        And one at a time: the parent of who goes stays.
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
            raise TopologyError(f"{request.broker} is of the root group; take it out of the group first")
        after = requested(tree, carry.asked, request)
        if height(after) > self._height_max:
            raise TopologyError(f"the tree would be {height(after)} links high; `height` is {self._height_max}")
        return after


def _answer(carry: Carry, refusal: str) -> Answer:
    return carry.asked, Carried(carry.request.operation, refusal)
