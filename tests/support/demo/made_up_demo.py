"""A performance without processes: two acts, with trees and a trace as brokers and clients would have told them."""

from pathlib import Path

from pleach.core.overlay.plans import Topology
from pleach.demo.acts import ACTS, demo_scenario
from pleach.demo.run import Performance, Scene, TreeSnapshot
from pleach.harness.run import LiveResult
from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario

CHURN = Path(__file__).parents[3] / "examples" / "churn.toml"


def tree(links, homes):
    return TreeSnapshot(Topology.of(links), homes, frozenset())


def performance(*, refusals=()):
    """The swap and the destroyed machine of the demo, over the trace of another run."""
    links = list(demo_scenario().links)
    swapped = [("iad2", "iad3") if link == ("iad1", "iad3") else link for link in links]
    before = tree(links, {"s": "iad2", "p": "fra1"})
    after = tree(swapped, {"s": "iad3", "p": "fra1"})
    swap, destroy = (act for act in ACTS if act.name in {"swap", "destroy"})
    scenes = (
        Scene(swap, 0.5, 1.0, 2.0, before, after, refusals),
        Scene(destroy, 2.0, 3.0, 4.0, after, after),
    )
    run = run_scenario(load_scenario(CHURN), 1)
    return Performance(LiveResult(run.scenario, run.records, run.ended_at, True, tuple(refusals)), scenes)
