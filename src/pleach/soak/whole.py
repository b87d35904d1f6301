"""Whether a network is whole: one tree, all links up, every broker with its copies, every client answered."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from pleach.errors import PleachError
from pleach.harness.live_clients import LiveClients
from pleach.harness.network import LiveNetwork
from pleach.operate.survey import Survey, survey

POLL_SECONDS = 0.5
REASONS_MAX = 8


async def until_whole(network: LiveNetwork, clients: LiveClients, *, seconds_max: float) -> list[str]:
    """Wait until the network is whole, and has answered what clients had asked before; returns why it is not."""
    asked = set(clients.under_way)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while True:
        reasons = await _shortcomings(network)
        unanswered = asked & clients.under_way
        if unanswered:
            reasons.append(f"{len(unanswered)} requests of clients are not answered, such as {_name(unanswered)}")
        if not reasons or loop.time() > deadline:
            return reasons[:REASONS_MAX]
        await asyncio.sleep(POLL_SECONDS)


def _name(tasks: Collection[asyncio.Task[object]]) -> str:
    return str(next(iter(tasks)).get_coro())


async def _shortcomings(network: LiveNetwork) -> list[str]:
    try:
        await network.locate()
        found = await survey([*network.directory.admin.values()])
    except PleachError as error:
        return [str(error)]
    return missing(found, network.members)


def missing(found: Survey, brokers: Collection[str]) -> list[str]:
    """Why the network is not whole, or not one tree."""
    reasons = [
        f"{name} does not answer: {found.unreachable.get(name, '')}" for name in brokers if name not in found.found
    ]
    for name, status in sorted(found.found.items()):
        reasons += [f"{name}: {reason}" for reason in status.reasons]
        reasons += [] if status.standby is not None and status.standby.covered else [f"{name} is not covered"]
        reasons += [f"{name}: client {client} is away" for client, told in status.clients.items() if not told.up]
        reasons += [f"{name}: component {each} has failed" for each, told in status.components.items() if told.failed]
    if found.found and not found.disagreements():
        reasons += _not_one_tree(found, len(brokers))
    unknown = {other for status in found.found.values() for other in status.neighbours} - {*found.found}
    reasons += [f"{name} is a neighbour, and does not answer" for name in sorted(unknown)]
    return [*reasons, *found.disagreements()]


def _not_one_tree(found: Survey, count: int) -> list[str]:
    """What brokers say is not all of one moment: a link may have moved meanwhile."""
    try:
        size = len(found.topology())
    except PleachError as error:
        return [str(error)]
    return [] if size == count else [f"{size} of {count} brokers are in one tree"]
