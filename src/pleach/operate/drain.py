"""Draining of a running broker: each of its clients moves to another one, at a limited rate.

Clients that could not move are named. A client that is not connected is left out: it cannot confirm that it halts, so
that its broker would wait for it and give up. Clients that connect meanwhile are found at the end, and named as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

from pleach.core.messages import Node, RequestMove
from pleach.core.overlay.plans import Topology
from pleach.errors import DeniedError, InvalidInputError, UnreachableError
from pleach.net.http_client import ask
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from pleach.operate.survey import Survey

AT_ONCE_MAX = 32  # movements under way; each has a connection to the broker's admin port
ABSENT = "it is not connected, so it cannot be told where to go; have it connect, and drain once more"
NEWCOMER = "it connected while the others moved; drain once more"


@dataclass(frozen=True)
class MoveEnd:
    """How one client's movement ended. RUNNING: not known."""

    client: Node
    to: Node
    state: OperationState
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class BrokerDrain:
    """`moves`, in the order in which they start; `absent`: clients that cannot be moved as they are not connected."""

    broker: Node
    admin: str
    moves: tuple[ClientMove, ...]
    absent: tuple[Node, ...]

    @classmethod
    def planned(cls, found: Survey, broker: Node, to: Sequence[Node] = ()) -> BrokerDrain:
        """Clients in the order of their names, distributed in turn to the brokers `to`, or to the neighbours.

        Raises TopologyError for a broker that is not in the tree, InvalidInputError where there is no target.
        """
        tree = found.topology()
        paths = {target: tree.path(broker, target) for target in _targets(tree, broker, to)}
        clients = found.found[broker].clients
        present = [name for name in sorted(clients) if clients[name].up]
        moves = [
            ClientMove(
                RequestMove(fresh_name(), client, list(paths[target])), (found.admin[broker], found.admin[target])
            )
            for client, target in zip(present, cycle(paths), strict=False)
        ]
        absent = tuple(name for name in sorted(clients) if not clients[name].up)
        return cls(broker, found.admin[broker], tuple(moves), absent)

    async def carry_out(
        self, *, rate: float, seconds_max: float, ended: Callable[[MoveEnd], None] = lambda _: None
    ) -> list[MoveEnd]:
        """`rate`: movements that start per second, at most; `seconds_max`: for each. The ends are in order of names.

        Raises DeniedError where the broker does not let this process move clients.
        """
        clock = asyncio.get_running_loop().time
        started, free = clock(), asyncio.Semaphore(AT_ONCE_MAX)
        tasks = []
        try:
            async with asyncio.TaskGroup() as group:
                for number, moving in enumerate(self.moves):
                    await asyncio.sleep(started + number / rate - clock())
                    await free.acquire()
                    tasks.append(group.create_task(_moved(moving, seconds_max, free, ended)))
        except* DeniedError as denied:
            error, *_ = denied.exceptions  # all are asked of one broker: what it denies once it denies always
            raise error from None
        return [task.result() for task in tasks]

    async def left(self) -> list[MoveEnd]:
        """Clients that are still there and were not asked to move: those not connected, and new ones."""
        try:
            there = (await ask(self.admin, "/status")).value["clients"]
        except UnreachableError as error:
            return [MoveEnd(name, "", OperationState.RUNNING, str(error)) for name in self.absent]
        asked = {moving.client for moving in self.moves}
        return [
            MoveEnd(name, "", OperationState.REFUSED, ABSENT if name in self.absent else NEWCOMER)
            for name in sorted(there)
            if name not in asked
        ]


def _targets(tree: Topology, broker: Node, to: Sequence[Node]) -> Sequence[Node]:
    tree.check(broker, *to)
    if broker in to:
        raise InvalidInputError(f"clients of {broker} cannot move to {broker}; name other brokers")
    if not (targets := to or tree.neighbours(broker)):
        raise InvalidInputError(
            f"{broker} is the only broker of its tree: its clients have nowhere to go; add one first"
        )
    return list(dict.fromkeys(targets))


async def _moved(
    moving: ClientMove, seconds_max: float, free: asyncio.Semaphore, ended: Callable[[MoveEnd], None]
) -> MoveEnd:
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        state, reason = await moving.carry_out(seconds_max=seconds_max)
    finally:
        free.release()
    end = MoveEnd(moving.client, moving.path[-1], state, reason, clock() - started)
    ended(end)
    return end
