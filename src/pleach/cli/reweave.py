"""`pleach overlay swap|exchange|add|apply`: change the tree of running brokers. Plans for it: plan.py.

Exit codes: 0 done, 1 refused or not carried out in full, 2 what was asked for makes no sense.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import typer
from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from pleach.cli.tree import picture
from pleach.core.messages import Node
from pleach.core.overlay.choice import AUTO, CHOICES, ONE_SWAP, check_fits, check_plan, planned_exchange, recommended
from pleach.core.overlay.plans import (
    Plan,
    PlannedOperation,
    PlanOutcome,
    SwapStep,
    Topology,
    TreeDifference,
    add_broker,
    decode_plan,
    describe,
    encode_plan,
    insert_broker,
)
from pleach.core.overlay.plans.cycle import cycle_of
from pleach.core.overlay.plans.steps import spelled
from pleach.errors import InvalidInputError, PlanError
from pleach.operate.apply import STEP_SECONDS_MAX, Directory, StepEnd, Watch, apply_plan, check_newcomers
from pleach.operate.operation import OperationState
from pleach.operate.survey import Survey, settled_survey

EXIT_REFUSED = 1
VIA = "PLEACH_VIA"
STDIN = "-"

Via: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(envvar=VIA, help="Any broker's admin address (HOST:PORT), or a directory with ready lines."),
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Timeout: TypeAlias = Annotated[float, typer.Option(help="Seconds for each step.", min=1.0, max=3_600.0)]
Protocol: TypeAlias = Annotated[
    str, typer.Option(help=f"One of {', '.join(CHOICES)}; by default that of the broker that is asked.")
]
DetachAbsent: TypeAlias = Annotated[
    bool, typer.Option("--detach-absent", help="End the sessions of clients that are not connected.")
]


# Commands --------------------------------------------------------------------------------------------------------


def swap(
    a: Annotated[str, typer.Argument(help="The broker whose link moves.")],
    b: Annotated[str, typer.Argument(help="Its neighbour now.")],
    c: Annotated[str, typer.Argument(help="Its neighbour then: a neighbour of B.")],
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
        check_fits(named, found.circumstances)
        return Plan.of(tree, [SwapStep(a, b, c, named)])

    change(via, planned, Wish(dry_run, as_json, timeout))


def exchange(
    remove: Annotated[str, typer.Option(help="The link that goes: X-Y.")],
    add: Annotated[str, typer.Option(help="The link that comes: U-V.")],
    protocol: Protocol = "",
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Replace any link by any other that leaves a tree: by swaps, or at once by a protocol for the whole cycle.

    Example: `pleach overlay exchange --remove a-b --add a-d --protocol auto --via 127.0.0.1:7300`
    """
    check_protocol(protocol)

    def planned(found: Survey) -> Plan:
        tree = found.topology()
        removed, added = _link(remove, tree.brokers), _link(add, tree.brokers)
        named = protocol or _setting(found, added[0])
        if named == AUTO:
            named = _recommended(len(cycle_of(tree, remove=removed, add=added)), found)
        return planned_exchange(tree, remove=removed, add=added, protocol=named, circumstances=found.circumstances)

    change(via, planned, Wish(dry_run, as_json, timeout))


def add(
    broker: Annotated[str, typer.Argument(help="A broker that runs, and has no neighbours.")],
    to: Annotated[str, typer.Option(help="Its neighbour-to-be.")] = "",
    into: Annotated[str, typer.Option(help="Or the link that it is put into: X-Y.")] = "",
    at: Annotated[str, typer.Option(help="Its admin address, unless a --via leads there.")] = "",
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Let a new broker join the tree, as a leaf or in the middle of a link.

    Example: `pleach overlay add d --to a --at 127.0.0.1:7304 --via 127.0.0.1:7301`
    """
    if bool(to) == bool(into):
        raise InvalidInputError("where to? give one of --to BROKER and --into X-Y")

    def planned(found: Survey) -> Plan:
        tree = found.topology()
        return add_broker(tree, broker, to=to) if to else insert_broker(tree, broker, into=_link(into, tree.brokers))

    change(via, planned, Wish(dry_run, as_json, timeout, more=[at] if at else []))


def apply(
    file: Annotated[Path, typer.Argument(help="A plan, as `plan` prints it; - reads stdin.")],
    at: Annotated[list[str] | None, typer.Option(help="Admin addresses of brokers that join.")] = None,
    detach_absent: DetachAbsent = False,
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Carry out a plan, as many steps at once as there can be. A plan for another tree is refused.

    Example: `pleach overlay apply plan.json --via 127.0.0.1:7301`
    """
    made = decode_plan(_read(file), source=str(file))

    def checked(found: Survey) -> Plan:
        tree = found.topology()
        if tree != made.start:
            difference = TreeDifference.of(planned=made.start, found=tree)
            raise PlanError(f"{file}: it is a plan for another tree ({difference}); make the plan anew")
        try:
            check_plan(made, found.circumstances)
        except PlanError as error:
            raise PlanError(f"{file}: {error}; make the plan anew, with --via") from None
        return made

    change(via, checked, Wish(dry_run, as_json, timeout, detach_absent=detach_absent, more=at or []))


# How ---------------------------------------------------------------------------------------------------------------


class Wish(msgspec.Struct, frozen=True):
    dry_run: bool
    as_json: bool
    timeout: float
    detach_absent: bool = False
    more: list[str] = []  # admin addresses of brokers outside the tree


def places(via: list[str]) -> list[str]:
    if not via:
        raise InvalidInputError(f"where is the tree? give --via HOST:PORT, any broker's admin address, or set {VIA}")
    return via


def change(via: list[str] | None, planned: Callable[[Survey], Plan], wish: Wish) -> None:
    found = asyncio.run(settled_survey([*places(via or []), *wish.more]))
    made = planned(found)
    check_newcomers(made, found)
    console = Console(stderr=wish.as_json)
    if wish.dry_run:
        if wish.as_json:
            typer.echo(encode_plan(made).decode(), nl=False)
        explain(console, made)
        return
    ends: list[StepEnd] = []
    outcome = asyncio.run(_applied(made, found, wish, console, ends))
    _report(console, outcome, ends, as_json=wish.as_json)
    if not outcome.complete:
        raise typer.Exit(EXIT_REFUSED)


def _recommended(brokers: int, found: Survey) -> str:
    """What `auto` stands for on a cycle of so many brokers; and why, for people."""
    protocol, reason = recommended(brokers, found.circumstances)
    Console(stderr=True).print(f"{protocol}: {reason}", highlight=False, markup=False)
    return protocol


def _setting(found: Survey, broker: Node) -> str:
    """The protocol that a broker is set up with; who is none is named when the plan is made."""
    status = found.found.get(broker)
    return status.exchange if status else ""


async def _applied(made: Plan, found: Survey, wish: Wish, console: Console, ends: list[StepEnd]) -> PlanOutcome:
    total, started = len(made.steps), 0

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
    return await apply_plan(made, directory, detach_absent=wish.detach_absent, seconds_max=wish.timeout, watch=watch)


def explain(console: Console, made: Plan) -> None:
    for line in describe(made):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    before = Panel(picture(made.start, other=made.result), title="before", expand=False)
    after = Panel(picture(made.result, other=made.start), title="after", expand=False)
    console.print(Columns([before, after]))


def _report(console: Console, outcome: PlanOutcome, ends: list[StepEnd], *, as_json: bool) -> None:
    changed = TreeDifference.of(planned=outcome.plan.start, found=outcome.reached)
    if as_json:
        typer.echo(msgspec.json.encode(_summary(outcome, changed, ends)).decode())
        return
    for line in outcome.lines():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
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


# What is given on the command line ---------------------------------------------------------------------------------


def check_protocol(name: str) -> None:
    if name and name not in CHOICES:
        raise InvalidInputError(f"--protocol: there is no {name!r}; there are {', '.join(CHOICES)}")


def _link(text: str, brokers: tuple[Node, ...]) -> tuple[Node, Node]:
    """`X-Y`; names may have dashes, too, so that those count which there are."""
    parts = text.split("-")
    splits = [("-".join(parts[:i]), "-".join(parts[i:])) for i in range(1, len(parts))]
    known = [(x, y) for x, y in splits if x in brokers and y in brokers]
    if not splits:
        raise InvalidInputError(f"{text!r} is no link; write X-Y, two brokers")
    if len(known) > 1:
        raise InvalidInputError(f"{text!r} can be read in {len(known)} ways; write a plan file instead")
    return known[0] if known else splits[0]


def wanted(text: str, brokers: set[Node]) -> Topology:
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        try:
            links = msgspec.json.decode(_read(path), type=list[tuple[str, str]])
        except msgspec.DecodeError as error:
            raise InvalidInputError(f'{text}: no tree: {error}; write [["a", "b"], ["b", "c"]]') from None
        return Topology.of(links)
    known = tuple(sorted(brokers))
    return Topology.of([_link(part.strip(), known) for part in text.split(",")])


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == STDIN else file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
