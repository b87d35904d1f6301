"""`pleach overlay plan`: make a plan to a given tree, or to a cheaper tree for the traffic of a lake."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from pleach.cli.arguments import AsJson, Via, check_protocol, parse_tree, places
from pleach.cli.show import progress_bar
from pleach.cli.terminal import Console
from pleach.cli.tree import draw_plan
from pleach.core.optimise.prices import Prices, read_prices
from pleach.core.overlay.choice import AUTO, Circumstances, planned_transformation
from pleach.core.overlay.plans import Plan, Topology, encode_plan
from pleach.errors import InvalidInputError
from pleach.operate.survey import settled_survey
from pleach.spark.planner.options import DEGREE_MAX, EXCHANGES_MAX, STARTS, STARTS_MAX, PlannerOptions

if TYPE_CHECKING:
    from pleach.spark.planner.job import Planned


def plan(
    to: Annotated[str, typer.Option(help="The target tree: a file (a list of links), or a-b,b-c,…")] = "",
    lake: Annotated[
        Path | None, typer.Option("--from", help="Or a lake: search a cheaper tree for its traffic.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Protocol of exchanges, or auto; default with --to: swaps, with --from: auto.")
    ] = "",
    via: Via = None,
    tree: Annotated[str, typer.Option(help="--from: the current tree, if neither --via nor the runs tell it.")] = "",
    runs: Annotated[list[str] | None, typer.Option("--run", help="--from: only this run; may be repeated.")] = None,
    costs: Annotated[Path | None, typer.Option(help="--from: costs of links and brokers (TOML).")] = None,
    degree_max: Annotated[int, typer.Option(help="--from: most neighbours of a broker.", min=2)] = DEGREE_MAX,
    steps_max: Annotated[int, typer.Option(help="--from: most exchanges.", min=1, max=EXCHANGES_MAX)] = EXCHANGES_MAX,
    starts: Annotated[int, typer.Option(help="--from: number of searches.", min=1, max=STARTS_MAX)] = STARTS,
    seed: Annotated[int, typer.Option(help="--from: the same seed finds the same plan.")] = 1,
    master: Annotated[str, typer.Option(help="--from: Spark's master: local[*], spark://host:port, …")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Print a plan, as JSON, that turns the tree into another one. `apply --dry-run` explains it.

    With --from, the target is a cheaper tree for the traffic of a lake; savings are printed on stderr. With --json one
    object has everything, the plan as `plan`.

    Examples: `pleach overlay plan --to "a-b,a-c" --via 127.0.0.1:7301 > plan.json`,
    `pleach overlay plan --from lake/ --costs costs.toml --degree-max 4 > plan.json`
    """
    if bool(to) == (lake is not None):
        raise InvalidInputError("give either --to TREE or --from LAKE")
    check_protocol(protocol)
    if lake is None:
        _show_transformation(to, protocol, via, as_json=as_json)
        return
    prices = prices_in(costs) if costs else Prices()
    current, circumstances = _as_it_is(via, tree)
    wish = PlannerOptions(degree_max, starts, seed, steps_max)
    found = _planned(lake, runs or [], current, prices, wish, master, quiet=as_json)
    _show(found, found.order.plan(protocol or AUTO, circumstances), as_json=as_json)


# To a tree that is given ---------------------------------------------------------------------------------------------


def _show_transformation(to: str, protocol: str, via: list[str] | None, *, as_json: bool) -> None:
    found = asyncio.run(settled_survey(places(via)))
    now = found.topology()
    then = parse_tree(to, {*now.brokers, *found.found})
    made = planned_transformation(now, then, protocol=protocol, circumstances=found.circumstances)
    typer.echo(encode_plan(made).decode(), nl=False)
    if not as_json:
        draw_plan(Console(stderr=True), made)


# To a cheaper one ----------------------------------------------------------------------------------------------------


def prices_in(file: Path) -> Prices:
    try:
        return read_prices(file.read_text(), source=str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file} cannot be read: {error}") from None


def _as_it_is(via: list[str] | None, tree: str) -> tuple[Topology | None, Circumstances]:
    """The tree, unless the lake tells it, and the circumstances for the choice of a protocol, if --via tells them."""
    if tree and via:
        raise InvalidInputError("--tree and --via both name the tree; give one of them")
    if via:
        found = asyncio.run(settled_survey(places(via)))
        return found.topology(), found.circumstances
    return (_named(tree) if tree else None), Circumstances()


def _named(tree: str) -> Topology:
    """The names of brokers are not known yet: a dash can only separate two of them."""
    if not Path(tree).is_file() and any(part.count("-") > 1 for part in tree.split(",")):
        raise InvalidInputError(f"--tree: {tree!r} is ambiguous; write the links into a file instead")
    return parse_tree(tree, set())


def _planned(
    lake: Path,
    runs: list[str],
    current: Topology | None,
    prices: Prices,
    wish: PlannerOptions,
    master: str,
    *,
    quiet: bool,
) -> Planned:
    from pleach.spark.session import load_spark, spark_session  # noqa: PLC0415 an optional part, and slow to load

    load_spark()
    from pleach.spark.planner.job import planned, traffic_of  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    shown = lambda name, share: {"description": name, "completed": share}  # noqa: E731
    with progress_bar(*columns, total=1.0, quiet=quiet, shown=shown) as on_step:
        on_step("starting Spark", 0.0)
        spark = spark_session(master)
        traffic = traffic_of(spark, lake, runs, current, on_step)
        return planned(spark, traffic, prices, wish, on_step)


def _show(found: Planned, made: Plan, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(_summary(found, made)).decode())
        return
    typer.echo(encode_plan(made).decode(), nl=False)
    console = Console(stderr=True)
    draw_plan(console, made)
    console.print(_table(found), highlight=False)
    console.print(_verdict(found), highlight=False, markup=False, soft_wrap=True)


def _table(found: Planned) -> Table:
    table = Table("exchange", "goes", "comes", "saves", "of the cost", "cost then", box=None)
    whole = found.order.rank.cost or 1.0
    for number, exchange in enumerate(found.order.exchanges, start=1):
        gone, new = "–".join(exchange.remove), "–".join(exchange.add)
        share = f"{exchange.saving / whole:.1%}"
        table.add_row(str(number), gone, new, f"{exchange.saving:,.1f}", share, f"{exchange.rank.cost:,.1f}")
    return table


def _verdict(found: Planned) -> str:
    order = found.order
    now, then, whole = order.rank.cost, order.rank_then.cost, order.rank.cost or 1.0
    text = f"{found.events:,.0f} events cost {now:,.1f} now and {then:,.1f} then: {order.saving / whole:.1%} less"
    if found.yardstick:
        text += f"; that is {then / found.yardstick:.2f} of what they would cost on trees of their own (S1 §5.6)"
    limit, excess = found.problem.degree_max, order.rank_then.excess
    return text + (f"; {excess} links more than {limit} neighbours each allow are left" if excess else "")


def _summary(found: Planned, made: Plan) -> dict[str, object]:
    order = found.order
    return {
        "events": found.events,
        "flows": len(found.problem.flows),
        "cost_now": order.rank.cost,
        "cost_then": order.rank_then.cost,
        "saving": order.saving,
        "yardstick": found.yardstick,
        "excess_now": order.rank.excess,
        "excess_then": order.rank_then.excess,
        "exchanges": [
            {"remove": exchange.remove, "add": exchange.add, "saving": exchange.saving, "cost_then": exchange.rank.cost}
            for exchange in order.exchanges
        ],
        "starts": [{"start": end.name, "cost": end.found.rank.cost} for end in found.ends],
        "plan": msgspec.json.decode(encode_plan(made)),
    }
