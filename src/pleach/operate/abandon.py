"""Operations that an operator abandons (core/overlay/abandonment.py): who can give one up, and who has heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pleach.core.messages import Node
from pleach.errors import SurveyError
from pleach.operate.operation import ABANDON_PATH, ASK_SECONDS, OpenStatus, ask_broker
from pleach.operate.survey import SETTLE_PAUSE_SECONDS, Survey, survey


@dataclass(frozen=True)
class Abandoned:
    """`at`: the broker that has given it up; empty if none has. `kept`: why others have not, by name.

    `left`: who still takes part, as each said last.
    """

    at: Node
    kept: Mapping[Node, str]
    left: Mapping[Node, OpenStatus] = field(default_factory=dict)


def taking_part(found: Survey, operation: str) -> dict[Node, OpenStatus]:
    all_of = ((name, each) for name, status in sorted(found.found.items()) for each in status.open_operations)
    return {name: each for name, each in all_of if each.name == operation}


async def abandon(places: Sequence[str], operation: str, *, seconds_max: float) -> Abandoned:
    """Ask those who can give it up, one after the other, and wait until all that answer have heard of it.

    Raises SurveyError where no broker that answers takes part.
    """
    found = await survey(places)
    part = taking_part(found, operation)
    if not part:
        silent = f"no answer from {', '.join(found.unreachable)}" if found.unreachable else ""
        remedy = "`pleach overlay show` lists what is under way, `pleach overlay status` how the last ones ended"
        raise SurveyError(f"no broker takes part in an operation {operation!r}", silent, remedy)
    kept = {name: each.why_not for name, each in part.items() if each.why_not}
    for name in (name for name, each in part.items() if not each.why_not):
        answer = await ask_broker(
            found.admin[name], ABANDON_PATH, {"abandoned": operation}, seconds_max=2 * ASK_SECONDS
        )
        if answer.is_ok:
            return Abandoned(name, kept, await _left(places, operation, seconds_max))
        kept[name] = str(answer.value.get("error", answer.code))
    return Abandoned("", kept, part)


async def _left(places: Sequence[str], operation: str, seconds_max: float) -> dict[Node, OpenStatus]:
    deadline = asyncio.get_running_loop().time() + seconds_max
    while True:
        left = taking_part(await survey(places), operation)
        if not left or asyncio.get_running_loop().time() > deadline:
            return left
        await asyncio.sleep(SETTLE_PAUSE_SECONDS)
