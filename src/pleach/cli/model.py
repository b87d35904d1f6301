"""`pleach model`: the costs of filtering and of flooding in a network, computed rather than measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from pleach.cli.terminal import Console
from pleach.errors import InvalidInputError, MissingPartError
from pleach.model import recursion
from pleach.model.complete import CompleteTree, Demand, Publishers, as_network
from pleach.model.costs import Costs, break_even
from pleach.model.network import load_network, scaled

PLOT_POINTS = 200


def model(
    file: Annotated[Path | None, typer.Argument(help="A network described in TOML.", show_default=False)] = None,
    fanout: Annotated[int, typer.Option(help="Without a file: a complete tree with this many children each,")] = 3,
    levels: Annotated[int, typer.Option(help="and this many levels.")] = 5,
    subscriptions: Annotated[float, typer.Option(help="Active subscriptions, on average, at the leaves.")] = 100_000,
    classes: Annotated[int, typer.Option(help="Number of different filters.")] = 1_000,
    lifetime: Annotated[float, typer.Option(help="Lifetime of a subscription, in seconds.")] = 600,
    refresh: Annotated[float, typer.Option(help="Seconds between two refreshes of a lease.")] = 60,
    publications: Annotated[float, typer.Option(help="Events per second, of all classes.")] = 1_000,
    publishers: Annotated[Publishers, typer.Option(help="Where publishers are.")] = Publishers.LEAVES,
    peer_to_peer: Annotated[
        bool, typer.Option("--peer-to-peer", help="Peer-to-peer routing on shortest paths, without a root.")
    ] = False,
    cover: Annotated[float, typer.Option(help="Probability that a class covers another (0: identity).")] = 0.0,
    plot: Annotated[Path | None, typer.Option(help="Draw costs against subscriptions (PNG, SVG, PDF).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute messages per second of filtering and of flooding, and the number of subscriptions where they break even.

    Exits with 0 whatever the result, 2 if the input is unusable.

    Example: `pleach model --subscriptions 250000 --lifetime 60`
    or `pleach model examples/model/network.toml --peer-to-peer`
    """
    if file is not None:
        network = load_network(file)
    else:
        demand = Demand(subscriptions, classes, lifetime, refresh, publications)
        network = as_network(CompleteTree(fanout, levels), demand, publishers)

    def costs_at(factor: float) -> Costs:
        return recursion.costs(scaled(network, factor), hierarchical=not peer_to_peer, cover=cover)

    now = network.subscriptions
    found = costs_at(1.0)
    even = break_even(lambda wanted: costs_at(wanted / now).saved) if now else None
    if plot is not None:
        _draw(plot, now, even, costs_at)
    if as_json:
        summary = {**found._asdict(), "saved": found.saved, "subscriptions": now, "break_even": even}
        typer.echo(msgspec.json.encode(summary).decode())
        return
    _show(Console(), found, now, even, plot)


def _show(console: Console, found: Costs, subscriptions: float, even: float | None, plot: Path | None) -> None:
    table = Table("messages per second", "", box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.columns[1].justify = "right"
    rows = [
        ("flooding", found.flooding),
        ("filtering", found.notifications + found.control),
        ("  events", found.filtering),
        ("  events towards the root", found.detour),
        ("  leases", found.leases),
        ("  (un)subscriptions", found.toggles),
        ("saved by filtering", found.saved),
    ]
    for name, value in rows:
        table.add_row(name, f"{value:,.1f}")
    console.print(table)
    answer = "filter" if found.saved >= 0 else "flood"
    until = "always" if even is None else f"up to about {even:,.0f} subscriptions"
    console.print(f"with {subscriptions:,.0f} subscriptions: [bold]{answer}[/]; filtering saves {until}")
    if plot is not None:
        console.print(f"drawn: {plot}", soft_wrap=True)


def _draw(path: Path, now: float, even: float | None, costs_at: Callable[[float], Costs]) -> None:
    if not now:
        raise InvalidInputError("--plot: a network without subscriptions has no curve")
    plt = _load_pyplot()
    highest = 1.3 * max(now, even or 0.0)
    counts = [highest * point / PLOT_POINTS for point in range(PLOT_POINTS + 1)]
    points = [costs_at(count / now) for count in counts]
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.plot(counts, [each.flooding - each.notifications for each in points], label="events saved by filtering")
    axes.plot(counts, [each.control for each in points], label="leases and (un)subscriptions")
    if even is not None:
        axes.axvline(even, color="0.5", linestyle=":", label=f"break-even: {even:,.0f}")
    axes.set(xlabel="active subscriptions", ylabel="messages per second", xlim=(0, highest), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: cannot be written: {error}") from None
    finally:
        plt.close(figure)


def _load_pyplot() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to load

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise MissingPartError("plots need matplotlib: pip install 'pleach[lab]'") from None
    return plt
