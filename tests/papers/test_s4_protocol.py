"""S4 §4 and §5 (the movement protocol and what it costs), statement by statement. §3 is in test_s4_properties.py.

S4's Figure 4 is lost from the text; its states are named in §4.2 and in Figure 5. What we do otherwise is said at the
test; docs/protocols/movement.md has the list.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from pleach.core.effects import Concluded
from pleach.core.messages import OPERATOR, Attach, RequestMove
from pleach.core.mobility.machine import Mobility
from pleach.core.mobility.movements import SourceMovement, TargetMovement
from pleach.core.mobility.phases import SourcePhase, TargetPhase
from pleach.core.mobility.source import TIMER, timers
from pleach.scenario import parse_scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind
from support.overlay.memory_loss import World

PATH = ["s", "p", "q", "t"]
LINKS = [*pairwise(PATH), ("p", "o")]
S4_SOURCE = {  # our phases, by S4's initials in Figure 5: init, wait, prepared, aborted, committed
    None: "i",
    SourcePhase.NEGOTIATING: "w",
    SourcePhase.HALTING: "w",
    SourcePhase.AMENDING: "w",
    SourcePhase.PREPARED: "p",
    SourcePhase.ABORTING: "a",
}
S4_TARGET = {None: "i", TargetPhase.APPROVED: "p", TargetPhase.COMMITTED: "c"}


def world_of(stream=None):
    world = World(LINKS, {"k": "s", "a publisher": "o"}, stream)
    world.ask("s", RequestMove("1", "k", PATH))
    return world


def phase_at(world, broker, role):
    return next((m.phase for m in world.brokers[broker].machine(Mobility).movements if isinstance(m, role)), None)


def copies(world):
    return [name for name, broker in world.brokers.items() if "k" in broker.sessions]


# §4.2 Client layer ------------------------------------------------------------------------------------------------


def test_the_conversation_of_figure_3():
    """§4.2: negotiate, approve, state, ack, each once over each link of the path; then a commit, which S4 has not.

    S4 cleans up "hop by hop" when it commits; `MoveCommit` says when a broker is no longer locked by the movement.
    """
    result = moved()
    kinds = ("Negotiate", "Approve", "MoveState", "MoveAck", "MoveCommit")
    found = [(message, *link) for message, *link in sent(result, *kinds)]
    there, back = list(pairwise(PATH)), list(pairwise(PATH[::-1]))
    ways = zip(kinds, (there, back, there, back, there), strict=True)
    assert found == [(kind, *link) for kind, way in ways for link in way]


def test_global_states_are_those_of_figure_5():
    """§4.2: the pairs of coordinators' states that are reached when the movement commits, in any order of messages."""
    seen = set()
    for seed in range(20):
        world = world_of(Random(f"figure 5/{seed}"))
        while True:
            states = phase_at(world, "s", SourceMovement), phase_at(world, "t", TargetMovement)
            seen.add(S4_SOURCE[states[0]] + S4_TARGET[states[1]])
            if not world.step():
                break
        assert world.ends == [Concluded("1")]
    assert seen == {"wi", "wp", "pp", "pc", "ic", "ii"}  # once it has committed, a coordinator forgets the movement


@pytest.mark.parametrize("seed", range(10))
def test_one_copy_is_started_at_the_end_and_at_most_one_before(seed):
    """§4.2, properties (1) and (2). The source's copy is a table of requests once the client has halted."""
    world = world_of(Random(f"copies/{seed}"))
    while world.step():
        source = phase_at(world, "s", SourceMovement)
        started = [name for name in copies(world) if not (name == "s" and source is SourcePhase.PREPARED)]
        assert len(started) <= 1
    assert copies(world) == ["t"]


def test_a_target_that_rejects_leaves_the_client_where_it_is():
    """§3.1 and §4.2, message (3): "the client should remain connected … again with no loss of messages"."""
    world = world_of()
    world.brokers["t"].machine(Mobility)._admit = lambda _arrival: "t is full"
    world.drain()
    assert world.ends == [Concluded("1", "t is full")]
    assert copies(world) == ["s"]
    assert world.heard("k") == ["k"]
    assert world.locked == {}


# §4.1 System model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delay_ms_max", "waits_for_ever"), [(0, True), (100, False)])
def test_the_blocking_variant_waits_for_the_target_and_the_other_does_not(delay_ms_max, waits_for_ever):
    """§4.1: (i) with bounded delays movements end within a bounded time; (ii) else the algorithm may block.

    It blocks in one state only, the source's PREPARED: before that a source without an answer gives up after a while.
    """
    for phase in SourcePhase:
        movement = SourceMovement(RequestMove("1", "k", PATH, delay_ms_max), 0, phase=phase)
        expected = phase is SourcePhase.ABORTING or (phase is SourcePhase.PREPARED and waits_for_ever)
        assert (timers(movement) == []) == expected


def test_with_bounded_delays_a_source_without_an_answer_commits():
    """§4.1, three-phase commit: a prepared coordinator that hears nothing takes it that all others are prepared."""
    world = World(LINKS, {"k": "s", "a publisher": "o"})
    world.ask("s", RequestMove("1", "k", PATH, 100))
    while phase_at(world, "s", SourceMovement) is not SourcePhase.PREPARED:
        assert world.step()
    world.perform("s", world.brokers["s"].handle_timer(f"{TIMER}1", now=1.0))
    assert world.ends == [Concluded("1")]
    world.drain()
    assert copies(world) == ["t"]


def test_the_client_need_not_ask():
    """§3.1 has the client issue MOVE. We deviate: an operator asks the source; the client is halted by its broker."""
    broker = world_of().brokers["o"]
    broker.handle("another", Attach(), now=0.0)
    (noted, *_) = broker.handle(OPERATOR, RequestMove("2", "another", ["o", "p"]), now=0.0)
    assert noted.phase.phase == "source negotiating"


# §4.4 Routing layer, and §5 Evaluation ----------------------------------------------------------------------------

MOVES_AT = 1.0
BROKERS = {*PATH, "o", *(f"far{n}" for n in range(8))}


def moved(*, others=0, off_path=0, protocol="transaction", routing="simple"):
    """One client moves along PATH. `others`: clients of its source whose filters its own covers."""
    links = [*map(list, LINKS), *(["o", f"far{n}"] for n in range(off_path))]
    clients = [("k", "s", "x > 0"), *((f"other{n}", "s", f"x = {n + 1}") for n in range(others))]
    tables = "\n".join(f'[[clients]]\nid = "{c}"\nbroker = "{b}"\nsubscribe = ["{f}"]' for c, b, f in clients)
    step = f'[[steps]]\nat = {MOVES_AT}\ndo = "move_client"\nclient = "k"\nto = "t"\nprotocol = "{protocol}"'
    head = f'name = "one movement"\nrouting = "{routing}"\nlinks = {links}\nduration = 3.0\nlatency.default = 0.001'
    return ScenarioRun(parse_scenario(f"{head}\n{tables}\n{step}"), 1).finish()


def sent(result, *kinds):
    """Messages between brokers since the movement began; all of them if no kinds are given."""
    return [
        (record.message, record.node, record.peer)
        for record in result.records
        if record.kind is RecordKind.SEND
        and record.at >= MOVES_AT
        and {record.node, record.peer} <= BROKERS
        and (not kinds or record.message in kinds)
    ]


def test_only_the_path_is_told():
    """§4.4, claims 1 and 2: routing configurations differ at the brokers of RouteS2T, and there alone."""
    links = {frozenset(link) for link in pairwise(PATH)}
    assert {frozenset(ends) for _, *ends in sent(moved(off_path=3))} == links


def test_the_message_load_is_stable_with_respect_to_subscription_workloads():
    """§5, Fig. 9(b): the reconfiguration protocol, which S4 measures without covering."""
    alone, crowded = sent(moved()), sent(moved(others=20))
    assert len(alone) == len(crowded) == 3 * 8  # over each link five messages, an Install with its answer, a Withdraw


def test_the_covering_protocol_suffers_when_the_root_subscription_moves():
    """§5, Fig. 11: it triggers the propagation of all non-root subscriptions."""
    few, many = (sent(moved(others=n, protocol="covering", routing="covering")) for n in (2, 20))
    assert len(many) > len(few) + 18  # each that was hidden is told over at least one link


def test_the_size_of_the_topology_does_not_matter():
    """§5, Fig. 13, where the path keeps its length."""
    assert Counter(sent(moved())) == Counter(sent(moved(off_path=8)))
