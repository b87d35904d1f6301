"""Small coloured networks that are made for one purpose each."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.messages import Node
from pleach.scenario.load import parse_scenario
from pleach.scenario.model import Scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, judge

TEMPLATE = """
name = "directed"
routing = "simple"
ordering = "{ordering}"
links = {links}
duration = {duration}
[latency]
default = {default}
{latency}
[stabilise]
kind = "coloured"
refresh = {refresh}
period = {period}
{stabilise}
{clients}
{steps}
"""


def directed(
    links: Sequence[Sequence[Node]],
    *,
    clients: str = "",
    steps: Sequence[str] = (),
    ordering: str = "none",
    default: Sequence[float] = (0.01, 0.02),
    latency: str = "",
    refresh: float = 0.1,
    period: float = 1.0,
    stabilise: str = "",
    duration: float = 12.0,
) -> Scenario:
    return parse_scenario(
        TEMPLATE.format(
            links=[list(link) for link in links],
            clients=clients,
            steps="\n".join(f"[[steps]]\n{step}" for step in steps),
            ordering=ordering,
            default=list(default),
            latency=latency,
            refresh=refresh,
            period=period,
            stabilise=stabilise,
            duration=duration,
        )
    )


def client(name: Node, broker: Node, *, more: str = "") -> str:
    return f'[[clients]]\nid = "{name}"\nbroker = "{broker}"\n{more}\n'


def parents(run: ScenarioRun) -> dict[Node, Node | None]:
    """The tree that is current, once all is quiet."""
    return {name: broker.router.parent for name, broker in sorted(run.brokers.items())}


def violations(run: ScenarioRun) -> list[str]:
    return [str(violation) for violation in judge(run.recorder.records).violations]


def noted(run: ScenarioRun, detail: str) -> list[tuple[float, Node]]:
    return [(r.at, r.node) for r in run.recorder.records if r.kind == RecordKind.STATE and r.detail == detail]
