"""`pleach overlay remove`: take a broker out of the tree, and before that, on request, move away all that live there.

Exit codes: 0 done, 1 something was refused, 2 what was asked for makes no sense.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from pleach.cli.drain import RATE, drained, report
from pleach.cli.reweave import EXIT_REFUSED, AsJson, DetachAbsent, DryRun, Timeout, Via, Wish, change, places
from pleach.core.messages import Node
from pleach.core.overlay.plans import Plan, remove_broker
from pleach.errors import InvalidInputError
from pleach.operate.apply import STEP_SECONDS_MAX
from pleach.operate.draining import Draining
from pleach.operate.operation import OperationState
from pleach.operate.survey import Survey, settled_survey


def remove(
    broker: Annotated[str, typer.Argument(help="The broker that goes.")],
    to: Annotated[str | None, typer.Option(help="The neighbour that gets its links and clients.")] = None,
    moving: Annotated[bool, typer.Option("--moving", help="Clients and components move away first.")] = False,
    detach_absent: DetachAbsent = False,
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Take a broker out of the tree. Its clients go to a neighbour without noticing, and then its process ends.

    Components that it hosts would end with it: with --moving they move first, as clients do, each as a transaction.

    Example: `pleach overlay remove b --moving --via 127.0.0.1:7301`
    """
    if moving and not dry_run:
        _empty(places(via or []), broker, to, timeout)

    def planned(found: Survey) -> Plan:
        plan = remove_broker(found.topology(), broker, to=to)
        if not moving:
            check_uninhabited(found, broker)
        return plan

    change(via, planned, Wish(dry_run, as_json, timeout, detach_absent=detach_absent))


def check_uninhabited(found: Survey, broker: Node) -> None:
    """Before any link is swapped: the broker itself would refuse to leave, but only in the end."""
    components = found.found[broker].components
    if running := [name for name in sorted(components) if not components[name].failed]:
        raise InvalidInputError(
            f"{broker} hosts components, which would end with it: {', '.join(running)}; "
            "move them away first: --moving, or `pleach client move`"
        )


def _empty(via: list[str], broker: Node, to: Node | None, seconds_max: float) -> None:
    """Raises typer.Exit where someone could not be moved. The absent follow by redirection, or are detached."""
    planned = Draining.planned(asyncio.run(settled_survey(via)), broker, [to] if to else ())
    ends = asyncio.run(drained(planned, RATE, seconds_max))
    report(planned, ends, as_json=False, to_stderr=True)
    if any(end.state is not OperationState.DONE and end.client not in planned.absent for end in ends):
        raise typer.Exit(EXIT_REFUSED)
