"""`pleach overlay`: show the tree of running brokers, and change it while events flow.

Each change is a plan (core/overlay/plans), made for the tree that a survey finds (operate/survey.py), and applied step
by step (operate/apply.py). `drain`, `plan` and `improve` are in modules of their names.

Exit codes: 0 done, 1 refused or not carried out in full, 2 unusable input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from pleach.cli import drain, improve, plan
from pleach.cli.arguments import (
    EXIT_REFUSED,
    AsJson,
    DetachAbsent,
    DryRun,
    Protocol,
    Timeout,
    Via,
    check_protocol,
    parse_link,
    places,
    read_input,
)
from pleach.cli.terminal import Console, escape
from pleach.cli.tree import draw_plan, draw_ring, draw_silent, draw_survey, report_of
from pleach.core.messages import Node
from pleach.core.overlay.choice import AUTO, ONE_SWAP, planned_exchange, recommended
from pleach.core.overlay.plans import (
    Plan,
    PlannedOperation,
    PlanOutcome,
    SwapStep,
    TreeDifference,
    add_broker,
    decode_plan,
    encode_plan,
    insert_broker,
    remove_broker,
)
from pleach.core.overlay.plans.cycle import cycle_of
from pleach.core.overlay.plans.steps import spelled
from pleach.errors import InvalidInputError, PlanError, UnreachableError
from pleach.net.http_client import ask
from pleach.net.printable import printable
from pleach.operate.abandon import abandon
from pleach.operate.apply import (
    STEP_SECONDS_MAX,
    TRIES_MAX,
    Directory,
    StepEnd,
    Watch,
    apply_plan,
    check_newcomers,
    pursue,
)
from pleach.operate.drain import BrokerDrain
from pleach.operate.operation import OperationState
from pleach.operate.survey import Survey, settled_survey, survey

EXIT_INCOMPLETE = 1

app = typer.Typer(help="The tree of brokers: look at it, and change it while events flow.", no_args_is_help=True)


# Changes -----------------------------------------------------------------------------------------------------------


@app.command("swap")
def swap(
    a: Annotated[str, typer.Argument(help="The broker whose link moves.")],
    b: Annotated[str, typer.Argument(help="Its current neighbour.")],
    c: Annotated[str, typer.Argument(help="Its new neighbour, which is a neighbour of B.")],
    protocol: Protocol = "",
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Turn a–b–c into a–c–b: replace link a–b by a–c.

    Example: `pleach overlay swap a b c --via 127.0.0.1:7300`
    """
    check_protocol(protocol)

    def planned(found: Survey) -> Plan:
        tree = found.topology()
        named = _recommended(ONE_SWAP, found) if protocol == AUTO else protocol
        return Plan.of(tree, [SwapStep(a, b, c, named)])

    _change(via, planned, ChangeOptions(dry_run, as_json, timeout))


@app.command("exchange")
def exchange(
    remove: Annotated[str, typer.Option(help="The link to remove: X-Y.")],
    add: Annotated[str, typer.Option(help="The link to add: U-V.")],
    protocol: Protocol = "",
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Replace a link by another one such that a tree remains: by swaps, or by one protocol run along the cycle.

    Example: `pleach overlay exchange --remove a-b --add a-d --protocol auto --via 127.0.0.1:7300`
    """
    check_protocol(protocol)

    def planned(found: Survey) -> Plan:
        tree = found.topology()
        removed, added = parse_link(remove, tree.brokers), parse_link(add, tree.brokers)
        named = protocol or _setting(found, added[0])
        if named == AUTO:
            named = _recommended(len(cycle_of(tree, remove=removed, add=added)), found)
        return planned_exchange(tree, remove=removed, add=added, protocol=named, circumstances=found.circumstances)

    _change(via, planned, ChangeOptions(dry_run, as_json, timeout))


@app.command("add")
def add(
    broker: Annotated[str, typer.Argument(help="A running broker without neighbours.")],
    to: Annotated[str, typer.Option(help="Its new neighbour.")] = "",
    into: Annotated[str, typer.Option(help="Or the link that it is inserted into: X-Y.")] = "",
    at: Annotated[str, typer.Option(help="Its admin address, unless --via names it.")] = "",
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Add a running broker to the tree, as a leaf or in the middle of a link.

    Example: `pleach overlay add d --to a --at 127.0.0.1:7304 --via 127.0.0.1:7301`
    """
    if bool(to) == bool(into):
        raise InvalidInputError("give either --to BROKER or --into X-Y")

    def planned(found: Survey) -> Plan:
        tree = found.topology()
        return (
            add_broker(tree, broker, to=to) if to else insert_broker(tree, broker, into=parse_link(into, tree.brokers))
        )

    _change(via, planned, ChangeOptions(dry_run, as_json, timeout, more=[at] if at else []))


@app.command("remove")
def remove(
    broker: Annotated[str, typer.Argument(help="The broker to remove.")],
    to: Annotated[str | None, typer.Option(help="The neighbour that gets its links and clients.")] = None,
    moving: Annotated[bool, typer.Option("--moving", help="Move clients and components away first.")] = False,
    detach_absent: DetachAbsent = False,
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Remove a broker from the tree. Its clients are redirected to a neighbour, and then its process ends.

    Components that it hosts would end with it: with --moving they move first, as clients do, each in a transaction.

    Example: `pleach overlay remove b --moving --via 127.0.0.1:7301`
    """
    if moving and not dry_run:
        _move_all(places(via), broker, to, timeout)

    def planned(found: Survey) -> Plan:
        plan = remove_broker(found.topology(), broker, to=to)
        if not moving:
            check_hosts_nothing(found, broker)
        return plan

    _change(via, planned, ChangeOptions(dry_run, as_json, timeout, detach_absent=detach_absent, tries=TRIES_MAX))


app.command("drain")(drain.drain)
app.command("plan")(plan.plan)


@app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="A plan as `plan` prints it; - reads stdin.")],
    at: Annotated[list[str] | None, typer.Option(help="Admin addresses of brokers that join.")] = None,
    detach_absent: DetachAbsent = False,
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Apply a plan; independent steps run at the same time. A plan for another tree is refused.

    Example: `pleach overlay apply plan.json --via 127.0.0.1:7301`
    """
    made = decode_plan(read_input(file), source=str(file))

    def checked(found: Survey) -> Plan:
        tree = found.topology()
        if tree != made.start:
            difference = TreeDifference.of(planned=made.start, found=tree)
            raise PlanError(f"{file}: the plan is for another tree ({difference}); make it anew")
        return made

    _change(via, checked, ChangeOptions(dry_run, as_json, timeout, detach_absent=detach_absent, more=at or []))


app.command("improve")(improve.improve_tree)


@app.command("abandon")
def abandon_operation(
    operation: Annotated[str, typer.Argument(help="The operation, as `show` and `status` name it.")],
    via: Via = None,
    as_json: AsJson = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until all have heard of it.", min=0.0)] = 10.0,
) -> None:
    """Give up an operation that waits for something that will not come: it is undone, and nothing is lost.

    Exits with 1 where it only goes forward, and says whom it waits for.

    Example: `pleach overlay abandon k7q2mza --via 127.0.0.1:7300`
    """
    end = asyncio.run(abandon(places(via), operation, seconds_max=timeout))
    if as_json:
        typer.echo(msgspec.json.encode(end).decode())
    else:
        console = Console()
        if end.at:
            console.print(f"abandoned at {escape(end.at)}: it is undone, and nothing has changed")
        for name, reason in {} if end.at else end.kept.items():
            console.print(f"not at {escape(name)}: {escape(reason)}", soft_wrap=True)
        for name, left in end.left.items() if end.at else ():
            console.print(f"{escape(name)} has not heard of it yet: {escape(left.in_words)}", soft_wrap=True)
    if not end.at:
        raise typer.Exit(EXIT_REFUSED)


# The tree as it is ----------------------------------------------------------------------------------------------------


@app.command("show")
def show(
    brokers: Annotated[
        list[str] | None, typer.Argument(help="Admin addresses (HOST:PORT), or directories with ready lines.")
    ] = None,
    via: Via = None,
    ring: Annotated[
        bool, typer.Option("--ring", help="Also exit with 1 while the tree is not that of the ring.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw the tree, from the status of all its brokers. Exits with 1 if one is not ready.

    For brokers in a ring, also the ring: the keys of each broker, and where the tree differs from that of the ring.

    Example: `pleach overlay show 127.0.0.1:7300`
    """
    found = asyncio.run(survey(places([*(brokers or []), *(via or [])])))
    report = report_of(found)
    if ring and not report.members:
        raise InvalidInputError("none of these brokers is in a ring; start them with --ring and --join")
    if as_json:
        raw = {name: status.raw for name, status in found.found.items()}
        shown = {"brokers": raw, "failed": found.unreachable, **({"ring": report} if report.members else {})}
        typer.echo(msgspec.json.encode(shown).decode())
    else:
        draw_survey(Console(), found)
        if report.members:
            draw_ring(Console(), found, report, is_compared=ring or report.is_woven)
    is_ready = all(status.ready for status in found.found.values()) and not found.unreachable
    if not is_ready or (ring and not report.is_followed):
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("status")
def status(
    via: Via = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the last reconfigurations, and those under way. Exits with 1 if a broker does not answer.

    Example: `pleach overlay status --via 127.0.0.1:7300`
    """
    found, operations = asyncio.run(_operations(places(via)))
    if as_json:
        typer.echo(msgspec.json.encode({"brokers": operations, "failed": found.unreachable}).decode())
    else:
        console, table = Console(), _table(found, operations)
        console.print(table if table.row_count else "no reconfiguration since these brokers were started")
        draw_silent(console, found)
    if found.unreachable:
        raise typer.Exit(EXIT_INCOMPLETE)


async def _operations(via: list[str]) -> tuple[Survey, dict[str, Any]]:
    found = await survey(via)
    known: dict[str, Any] = {}
    for name, address in sorted(found.admin.items()):
        try:
            known[name] = (await ask(address, "/overlay/operations")).value
        except UnreachableError as error:
            found.unreachable[name] = error.reason
    return found, known


def _table(found: Survey, operations: dict[str, Any]) -> Table:
    table = Table("broker", "operation", "what", "state", "phase or reason", box=None)
    for name, known in operations.items():
        for each in known["operations"]:
            what = f"{each['what']} {', '.join(each['brokers'])}"
            row = (name, each["name"], what, each["state"], each["reason"] or each["phase"])
            table.add_row(*map(escape, row))
        for opened in found.found[name].open_operations:
            table.add_row(*map(escape, (name, opened.name, "", "open", opened.in_words)))
        if waits := found.found[name].leaving.waits_for:
            table.add_row(*map(escape, (name, "", "leaving", "waits for", ", ".join(waits))))
    return table


# Applying a plan -----------------------------------------------------------------------------------------------------


class ChangeOptions(msgspec.Struct, frozen=True):
    """What the commands that change the tree have in common."""

    dry_run: bool
    as_json: bool
    timeout: float
    detach_absent: bool = False
    tries: int = 1  # above 1: the plan is made anew where others have changed the tree meanwhile
    more: list[str] = []  # admin addresses of brokers that are not in the tree


def _change(via: list[str] | None, planned: Callable[[Survey], Plan], options: ChangeOptions) -> None:
    found = asyncio.run(settled_survey([*places(via), *options.more]))
    made = planned(found)
    check_newcomers(made, found)
    console = Console(stderr=options.as_json)
    if options.dry_run:
        if options.as_json:
            typer.echo(encode_plan(made).decode(), nl=False)
        draw_plan(console, made)
        return
    ends: list[StepEnd] = []

    async def apply(plan: Plan, seen: Survey) -> PlanOutcome:
        if ends:
            console.print("[dim]others have changed the tree meanwhile; planned anew[/]")
        return await _applied(plan, seen, options, console, ends)

    def replanned(seen: Survey) -> Plan:
        return made if seen is found else planned(seen)

    outcome = asyncio.run(pursue(found, replanned, apply, tries=options.tries))
    _report(console, outcome, ends, as_json=options.as_json)
    if not outcome.complete:
        raise typer.Exit(EXIT_REFUSED)


def _recommended(brokers: int, found: Survey) -> str:
    """The protocol that `auto` means on a cycle of so many brokers; the reason is printed."""
    protocol, reason = recommended(brokers, found.circumstances)
    Console(stderr=True).print(f"{protocol}: {reason}", highlight=False, markup=False, soft_wrap=True)
    return protocol


def _setting(found: Survey, broker: Node) -> str:
    """The protocol in a broker's settings; empty for an unknown broker, which the plan will refuse."""
    status = found.found.get(broker)
    return status.exchange if status else ""


async def _applied(
    made: Plan, found: Survey, options: ChangeOptions, console: Console, ends: list[StepEnd]
) -> PlanOutcome:
    total, started = len(ends) + len(made.steps), len(ends)

    def begin(operation: PlannedOperation) -> None:
        nonlocal started
        started += 1
        console.print(f"[dim]{started}/{total}[/] {escape(spelled(operation.step))} [dim]{operation.name} …[/]")

    def end(ended: StepEnd) -> None:
        ends.append(ended)
        colour = "green" if ended.state is OperationState.DONE else "red"
        word = "not answered" if ended.state is OperationState.RUNNING else ended.state.value
        reason = f": {escape(ended.reason)}" if ended.reason else ""
        what = f"{escape(spelled(ended.operation.step))} [{colour}]{word}[/] in {ended.seconds:.2f} s{reason}"
        console.print(f"[dim]{len(ends)}/{total}[/] {what}", soft_wrap=True)

    watch = Watch(begin, end)
    directory = Directory.of(found)
    return await apply_plan(
        made, directory, detach_absent=options.detach_absent, seconds_max=options.timeout, watch=watch
    )


def _report(console: Console, outcome: PlanOutcome, ends: list[StepEnd], *, as_json: bool) -> None:
    changed = TreeDifference.of(planned=outcome.plan.start, found=outcome.reached)
    if as_json:
        typer.echo(msgspec.json.encode(_summary(outcome, changed, ends)).decode())
        return
    for line in outcome.lines():
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
    for sign, names in (("−", changed.brokers_missing), ("+", changed.brokers_extra)):
        for name in names:
            console.print(f"  {sign} broker {name}", highlight=False, markup=False)
    for sign, links in (("−", changed.links_missing), ("+", changed.links_extra)):
        for x, y in links:
            console.print(f"  {sign} link {x}–{y}", highlight=False, markup=False)


def _summary(outcome: PlanOutcome, changed: TreeDifference, ends: list[StepEnd]) -> dict[str, object]:
    return {
        "complete": outcome.complete,
        "steps": [
            {
                "operation": end.operation.name,
                "step": end.operation.step,
                "state": end.state,
                "reason": end.reason,
                "seconds": round(end.seconds, 3),
            }
            for end in ends
        ],
        "unfinished": [str(left) for left in outcome.unfinished],
        "links_added": changed.links_extra,
        "links_removed": changed.links_missing,
        "brokers_added": changed.brokers_extra,
        "brokers_removed": changed.brokers_missing,
        "tree": outcome.reached.links,
    }


def check_hosts_nothing(found: Survey, broker: Node) -> None:
    """Checked before any link is swapped: the broker itself would refuse only at the last step."""
    components = found.found[broker].components
    if running := [name for name in sorted(components) if not components[name].failed]:
        raise InvalidInputError(
            f"{broker} hosts components, which would end with it: {', '.join(running)}; "
            "move them away first: --moving, or `pleach client move`"
        )


def _move_all(via: list[str], broker: Node, to: Node | None, seconds_max: float) -> None:
    """Raises typer.Exit if a client could not be moved. Absent clients are redirected later, or detached."""
    planned = BrokerDrain.planned(asyncio.run(settled_survey(via)), broker, [to] if to else ())
    ends = asyncio.run(drain.drained(planned, drain.RATE, seconds_max))
    drain.report(planned, ends, as_json=False, to_stderr=True)
    if any(end.state is not OperationState.DONE and end.client not in planned.absent for end in ends):
        raise typer.Exit(EXIT_REFUSED)
