"""Clients that are to move, from the dashboard: one of them, or all that a broker has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pleach.core.messages import Node
from pleach.errors import InvalidInputError
from pleach.operate.apply import STEP_SECONDS_MAX
from pleach.operate.draining import ABSENT, Draining, MoveEnd
from pleach.operate.moves import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from pleach.operate.survey import Survey
from pleach.web.draft import Draft, Shown, Tell, word
from pleach.web.wishes import Drain, Move

NAMED_MAX = 100  # clients that a preview names; it counts them all
LEFT_NAMED_MAX = 10


@dataclass(frozen=True)
class Journeys:
    """`title`: all of it in a line; `about`: what else is good to know before it begins."""

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


def planned_move(found: Survey, wish: Move) -> Journeys:
    """Raises PleachError where the client, or the broker, is not there, or it cannot go."""
    moving = ClientMove.planned(found, wish.client, wish.to, fresh_name())
    here = moving.path[0]
    client = found.found[here].clients[wish.client]
    if here == wish.to:
        raise InvalidInputError(f"{wish.client} is at {here} already; choose another broker")
    if not client.up:
        raise InvalidInputError(
            f"{wish.client} of {here}: {ABSENT.partition(';')[0]}; have it connect, and move it then"
        )
    wants, waits = _count(client.subscriptions_count, "subscription"), _count(client.queued, "unconfirmed message")
    title, goods = f"{wish.client} moves from {here} to {wish.to}", f"with {wants} and {waits}"
    return Journeys(title, (goods,), (moving,))


def planned_drain(found: Survey, wish: Drain) -> Journeys:
    """Raises PleachError where there is no such broker, nobody to move, or nowhere to go."""
    draining = Draining.planned(found, wish.broker, wish.to)
    if not draining.moves:
        why = f"{_names(draining.absent)}: {ABSENT}" if draining.absent else "it has no clients"
        raise InvalidInputError(f"nobody would leave {wish.broker}: {why}")
    count = len(draining.moves)
    title = f"{_count(count, 'client')} leave{'s' if count == 1 else ''} {wish.broker}"
    pace = f"{wish.rate:g} a second: {count / wish.rate:,.1f} s or more; the broker stays, and takes new clients"
    return Journeys(title, (pace,), draining.moves, draining.absent)


def draft_of_move(found: Survey, wish: Move) -> Draft:
    journeys = planned_move(found, wish)

    async def carry_out(tell: Tell) -> str:
        tell(0, "running", "")
        state, reason = await journeys.moves[0].carry_out(seconds_max=STEP_SECONDS_MAX)
        tell(0, word(state), reason)
        return "" if state is OperationState.DONE else reason or "nobody knows how it ended"

    return Draft(journeys.shown, journeys.steps, carry_out)


def draft_of_drain(found: Survey, wish: Drain) -> Draft:
    journeys = planned_drain(found, wish)
    draining = Draining(wish.broker, found.admin[wish.broker], journeys.moves, journeys.absent)
    number = {moving.client: i for i, moving in enumerate(journeys.moves)}

    async def carry_out(tell: Tell) -> str:
        def ended(end: MoveEnd) -> None:
            tell(number[end.client], word(end.state), end.reason)

        ends = await draining.carry_out(rate=wish.rate, seconds_max=STEP_SECONDS_MAX, ended=ended)
        left = [end.client for end in (*ends, *await draining.left()) if end.state is not OperationState.DONE]
        return f"{len(left):,} not moved: {_names(left)}" if left else ""

    return Draft(journeys.shown, journeys.steps, carry_out)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _spelled(path: tuple[Node, ...]) -> str:
    return " – ".join(path)


def _names(names: tuple[Node, ...] | list[Node]) -> str:
    more = f", and {len(names) - LEFT_NAMED_MAX:,} more" if len(names) > LEFT_NAMED_MAX else ""
    return ", ".join(names[:LEFT_NAMED_MAX]) + more
