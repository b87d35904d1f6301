"""Departure of a broker from the tree: it hands its links and its clients to a neighbour, and leaves as a leaf.

It makes and applies the plan of `pleach overlay remove`, and again where somebody else changed the tree meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pleach.core.broker import Broker
from pleach.core.messages import Node
from pleach.core.overlay.plans import remove_broker
from pleach.errors import InvalidInputError, SurveyError
from pleach.net.addresses import backoff
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.survey import settled_survey
from pleach.server.peer_directory import PeerDirectory

STEP_SECONDS_MAX: Final = 10.0  # a broker of the plan may have left meanwhile: then the plan is made anew

log = logging.getLogger(__name__)


async def depart(broker: Broker, directory: PeerDirectory, seconds_max: float, *, detach_absent: bool) -> str:
    """Returns why this broker is still in the tree, or nothing. The last one of a tree stays in it.

    `detach_absent`: without a disk, sessions of clients that are not connected end with the process anyway.
    """
    clock = asyncio.get_running_loop().time
    deadline, pauses = clock() + seconds_max, backoff()
    reason = ""
    while broker.router.neighbours:
        reason = await _tried(broker.name, directory.places.admin, detach_absent=detach_absent)
        if not reason or clock() > deadline:
            return reason
        log.info("%s is still in the tree: %s", broker.name, reason)
        await asyncio.sleep(next(pauses))
    return ""


async def _tried(name: Node, admin: str, *, detach_absent: bool) -> str:
    try:
        found = await settled_survey([admin])
        plan = remove_broker(found.topology(), name)
    except (SurveyError, InvalidInputError) as error:
        return str(error)
    outcome = await apply_plan(plan, Directory.of(found), detach_absent=detach_absent, seconds_max=STEP_SECONDS_MAX)
    return "" if outcome.complete else "; ".join(map(str, outcome.unfinished))
