"""What a movement leaves behind, and takes along: entries in a client's name, and the timer of its renewals."""

from __future__ import annotations

from pleach.core.events.language import parse_filter
from pleach.core.hosting.machine import RENEW
from pleach.core.messages import Detach, Layer, MoveAck
from pleach.core.mobility.phases import SourcePhase
from pleach.core.routing.entries import Entry
from pleach.scenario.model import Ordering, Routing, Scenario, ScenarioClient, Stabilise, Stabiliser
from pleach.scenario.steps import MoveClient
from support.everything.case import Beside, Case, ComponentMove, HostedComponent
from support.everything.run import CaseRun

GHOST = Entry("4/gone/s1", parse_filter("ghost = 1"))
BESIDE = Beside(
    components=(HostedComponent(id="k0", broker="a", filter="amount > 6", at=0.05),),
    component_moves=(ComponentMove(component="k0", to="b", at=0.5),),
)


def run_of(beside=BESIDE):
    scenario = Scenario(
        name="what moves leave",
        routing=Routing.COVERING,
        ordering=Ordering.FIFO,
        brokers=("a", "b"),
        root="a",
        links=(("a", "b"),),
        duration=2.0,
        stabilise=Stabilise(kind=Stabiliser.LEASES, refresh=0.2, period=0.5),
        clients=(ScenarioClient(id="c", broker="a", subscribe=("price > 1",)),),
        steps=(MoveClient(at=0.5, client="c", to="b"),),
    )
    return CaseRun(Case(seed=1, scenario=scenario, beside=beside))


def test_a_component_goes_on_renewing_where_it_has_moved():
    run = run_of()
    run.advance(1.5)
    assert run.places("k0") == ["b"]
    assert run.sim.has_timer("b", f"{RENEW}k0")


def test_what_a_fault_has_left_in_the_name_of_a_client_goes_with_it():
    """Else events would be sent to somebody who has no link here, until the next renewal."""
    run = run_of(Beside())
    run.advance(0.4)
    broker = run.brokers["a"]
    for layer in Layer:
        broker.router.add(layer, "c", GHOST, None)
    broker.handle("c", Detach(), now=0.4)
    assert not [entry for layer in Layer for entry in broker.router.received_from(layer, "c")]


def test_a_client_whose_session_a_fault_has_taken_is_sent_on_and_told_nothing_more():
    """It has no link here any more, and an answer to its departure could not be sent."""
    run = run_of(Beside())
    met = set()
    for moment in range(450, 700):
        run.advance(moment / 1_000)
        broker = run.brokers["a"]
        phases = {each.phase for each in broker._owner[MoveAck].movements}
        met |= phases
        if SourcePhase.PREPARED in phases and "c" in broker.sessions:
            del broker.sessions._clients["c"]
            broker.router.add(Layer.SUBSCRIPTIONS, "c", GHOST, None)
    assert SourcePhase.PREPARED in met
    assert "c" not in run.brokers["a"].sessions
    assert not run.brokers["a"].router.received_from(Layer.SUBSCRIPTIONS, "c")
    assert run.clients["c"].broker == "b"


def test_who_has_come_is_not_awaited_any_more():
    """Entries of somebody who is awaited are kept without a session; that of a client that is here may be damaged."""
    run = run_of(Beside())
    met = set()
    for moment in range(450, 700):
        run.advance(moment / 1_000)
        broker = run.brokers["b"]
        met.add(("c" in broker._context.awaited, "c" in broker.sessions))
    assert met == {(False, False), (True, False), (False, True)}
