"""Moves of brokers between machines, and promotions that an operator decides: asked for, and watched to their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.errors import SurveyError, UnreachableError
from pleach.net.http_client import ask
from pleach.operate.survey import BrokerStatus, Survey, survey

POLL_SECONDS = 0.25


class BrokerPlace(NamedTuple):
    """Where a broker with standbys runs."""

    machine: str
    view: int


def place_of(status: BrokerStatus | None) -> BrokerPlace | None:
    """None: it does not run, or has no standbys."""
    told = status.raw.get("standby") if status is not None and status.raw else None
    return BrokerPlace(told["machine"], told["view"]) if told and told.get("serving") else None


class MoveEnd(NamedTuple):
    """Where the broker is now; or why it has not moved."""

    place: BrokerPlace | None
    reason: str = ""


async def move_broker(
    found: Survey, broker: Node, to: str, *, seconds_max: float, tell: Callable[[str], None] = lambda _: None
) -> MoveEnd:
    """Ask a broker to move to another machine, and wait for it. Raises SurveyError where it cannot be asked.

    `to`: the address of the machine's host process, or its name. `tell`: is given each phase.
    """
    before = place_of(found.found.get(broker))
    if before is None:
        reason = "it has no standbys" if broker in found.found else "no broker of this name answers"
        remedy = "`pleach overlay show` draws those that answer, with their copies; settings: [standby]"
        raise SurveyError(f"{broker} cannot be moved", reason, remedy)
    answer = await ask(found.admin[broker], "/standby/move", {"to": to})
    if not answer.is_ok:
        return MoveEnd(None, str(answer.value.get("error", answer.value)))
    deadline, phase = time.monotonic() + seconds_max, ""
    while time.monotonic() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        status = await _status(found, broker)
        place = place_of(status) or await _held(found.admin[broker], broker)
        if place is not None and place.machine != before.machine and place.view > before.view:
            return MoveEnd(place)
        moving = (status.raw.get("standby") or {}).get("moving") if status is not None else None
        if moving and moving["phase"] != phase:
            phase = moving["phase"]
            tell(phase)
            if phase.startswith("given up"):
                return MoveEnd(None, phase)
    return MoveEnd(None, f"not done within {seconds_max:g} s: {phase or 'it does not answer'}; it goes on by itself")


async def _held(admin: str, broker: Node) -> BrokerPlace | None:
    """As the machine knows it that has run the broker, and has a copy of it now."""
    try:
        held = (await ask(admin, "/standby")).value.get("holds", {}).get(broker)
    except UnreachableError:
        return None
    return BrokerPlace(held["primary"], held["view"]) if held else None


async def _status(found: Survey, broker: Node) -> BrokerStatus | None:
    """As any broker of the network knows it: its address may be another one by now."""
    try:
        return (await survey(list(found.admin.values()))).found.get(broker)
    except (SurveyError, UnreachableError):
        return None
