"""Drafts: what a request from the dashboard would do, shown first, and carried out once it is confirmed (plan_runs.py).

A draft is a plan for the tree, or movements of clients: of one, or of all clients of a broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans import Link, Plan, PlannedOperation, PlanOutcome, TreeDifference, describe
from pleach.core.overlay.plans.steps import spelled
from pleach.errors import InvalidInputError
from pleach.operate.apply import STEP_SECONDS_MAX, StepEnd, Watch
from pleach.operate.drain import ABSENT, BrokerDrain, MoveEnd
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from pleach.operate.survey import Survey
from pleach.web.forms import Drain, Move

NAMED_MAX = 100  # clients that a preview names; it counts them all
LEFT_NAMED_MAX = 10

Tell: TypeAlias = Callable[[int, str, str], None]  # number of a step, its state (snapshot.RunStep), reason


class Shown(msgspec.Struct, frozen=True):
    """A draft for people. `lines`: the text, its first line as a title; the rest is drawn.

    `paths`: of clients; `arrivals`: how many clients each broker gets; `stays`: clients that cannot be moved.
    """

    lines: Sequence[str]
    links_removed: Sequence[Link] = ()
    links_added: Sequence[Link] = ()
    brokers_removed: Sequence[Node] = ()
    brokers_added: Sequence[Node] = ()
    paths: Sequence[Sequence[Node]] = ()
    arrivals: Mapping[Node, int] = {}
    stays: Sequence[Node] = ()


@dataclass(frozen=True)
class Draft:
    """`carry_out`: reports the states of steps, and returns what was left undone; empty: nothing."""

    shown: Shown
    steps: tuple[str, ...]
    carry_out: Callable[[Tell], Awaitable[str]]


def draft_of_plan(plan: Plan, apply: Callable[[Watch], Awaitable[PlanOutcome]]) -> Draft:
    """`apply`: carries out the plan, and reports to the watch."""
    steps = tuple(spelled(step) for step in plan.steps)
    number = {text: i for i, text in enumerate(steps)}

    async def carry_out(tell: Tell) -> str:
        def started(operation: PlannedOperation) -> None:
            tell(number[spelled(operation.step)], "running", "")

        def ended(end: StepEnd) -> None:
            tell(number[spelled(end.operation.step)], word(end.state), end.reason)

        outcome = await apply(Watch(started, ended))
        return "" if outcome.complete else "not all of it was done"

    return Draft(shown_plan(plan), steps, carry_out)


def shown_plan(plan: Plan) -> Shown:
    changed = TreeDifference.of(planned=plan.start, found=plan.result)
    return Shown(
        lines=describe(plan),
        links_removed=changed.links_missing,
        links_added=changed.links_extra,
        brokers_removed=changed.brokers_missing,
        brokers_added=changed.brokers_extra,
    )


def word(state: OperationState) -> str:
    """The state as it is shown. An operation whose end is not known is not running: nobody waits for it."""
    return "unknown" if state is OperationState.RUNNING else state.value


# Movements of clients ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClientMoves:
    """`title`: a summary in one line; `about`: further lines of the preview."""

    title: str
    about: tuple[str, ...]
    moves: tuple[ClientMove, ...]
    absent: tuple[Node, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(f"{moving.client}: {_spelled(moving.path)}" for moving in self.moves)

    @property
    def shown(self) -> Shown:
        arrivals = Counter(moving.path[-1] for moving in self.moves)
        return Shown(
            lines=[self.title, *self.about, *self._listed()],
            paths=sorted({moving.path for moving in self.moves}),
            arrivals=dict(sorted(arrivals.items())),
            stays=self.absent,
        )

    def _listed(self) -> Iterator[str]:
        yield from self.steps[:NAMED_MAX]
        if len(self.moves) > NAMED_MAX:
            yield f"and {len(self.moves) - NAMED_MAX:,} more"
        if self.absent:
            yield f"{_names(self.absent)}: {ABSENT}"


def planned_move(found: Survey, request: Move) -> ClientMoves:
    """Raises PleachError where there is no such client or broker, or the client cannot move."""
    moving = ClientMove.planned(found, request.client, request.to, fresh_name())
    here = moving.path[0]
    client = found.found[here].clients[request.client]
    if here == request.to:
        raise InvalidInputError(f"{request.client} is at {here} already; choose another broker")
    if not client.up:
        raise InvalidInputError(
            f"{request.client} of {here}: {ABSENT.partition(';')[0]}; have it connect, and move it then"
        )
    wants, waits = _count(client.subscriptions_count, "subscription"), _count(client.queued, "unconfirmed message")
    title, goods = f"{request.client} moves from {here} to {request.to}", f"with {wants} and {waits}"
    return ClientMoves(title, (goods,), (moving,))


def planned_drain(found: Survey, request: Drain) -> ClientMoves:
    """Raises PleachError where there is no such broker, no client to move, or no target."""
    draining = BrokerDrain.planned(found, request.broker, request.to)
    if not draining.moves:
        why = f"{_names(draining.absent)}: {ABSENT}" if draining.absent else "it has no clients"
        raise InvalidInputError(f"no client of {request.broker} can move: {why}")
    count = len(draining.moves)
    title = f"{_count(count, 'client')} leave{'s' if count == 1 else ''} {request.broker}"
    pace = f"{request.rate:g} a second: {count / request.rate:,.1f} s or more; the broker stays, and takes new clients"
    return ClientMoves(title, (pace,), draining.moves, draining.absent)


def draft_of_move(found: Survey, request: Move) -> Draft:
    moves = planned_move(found, request)

    async def carry_out(tell: Tell) -> str:
        tell(0, "running", "")
        state, reason = await moves.moves[0].carry_out(seconds_max=STEP_SECONDS_MAX)
        tell(0, word(state), reason)
        return "" if state is OperationState.DONE else reason or "its end is not known"

    return Draft(moves.shown, moves.steps, carry_out)


def draft_of_drain(found: Survey, request: Drain) -> Draft:
    moves = planned_drain(found, request)
    draining = BrokerDrain(request.broker, found.admin[request.broker], moves.moves, moves.absent)
    number = {moving.client: i for i, moving in enumerate(moves.moves)}

    async def carry_out(tell: Tell) -> str:
        def ended(end: MoveEnd) -> None:
            tell(number[end.client], word(end.state), end.reason)

        ends = await draining.carry_out(rate=request.rate, seconds_max=STEP_SECONDS_MAX, ended=ended)
        left = [end.client for end in (*ends, *await draining.left()) if end.state is not OperationState.DONE]
        return f"{len(left):,} not moved: {_names(left)}" if left else ""

    return Draft(moves.shown, moves.steps, carry_out)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _spelled(path: tuple[Node, ...]) -> str:
    return " – ".join(path)


def _names(names: tuple[Node, ...] | list[Node]) -> str:
    more = f", and {len(names) - LEFT_NAMED_MAX:,} more" if len(names) > LEFT_NAMED_MAX else ""
    return ", ".join(names[:LEFT_NAMED_MAX]) + more
