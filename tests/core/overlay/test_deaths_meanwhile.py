"""Brokers that die for good in the middle of a change of the tree: at every moment of it, and in random networks.

The small network is n–a–b–c–m under load; what is asked for begins at 1.0 s and takes some 25 ms, so that deaths three
milliseconds apart hit each of its steps.
"""

from __future__ import annotations

import itertools

import msgspec
import pytest

from pleach.core.overlay.swaplink.failures import fate
from pleach.core.overlay.swaplink.state import Swapping
from pleach.core.overlay.swaplink.transitions import SwapFate, SwapPhase, SwapRole
from pleach.scenario.load import parse_scenario
from pleach.scenario.steps import Crash
from support.overlay.dying_brokers import SETTINGS, Worse
from support.overlay.healing_judgement import judge_healing, replay
from support.overlay.judgement import Watched, violations
from support.thorough import FACTOR

NETWORK = """
name = "a death meanwhile"
routing = "covering"
ordering = "{ordering}"
links = [["n", "a"], ["a", "b"], ["b", "c"], ["c", "m"]]
duration = 2.0

[latency]
default = [0.001, 0.003]

[heal]
after = 0.2
grace = 0.5

[[clients]]
id = "asks"
broker = "n"
publish = {{ every = [0.001, 0.004], from = 0.9, until = 1.4, attributes = {{ topic = "question" }} }}
subscribe = ["topic = 'answer'"]

[[clients]]
id = "answers"
broker = "m"
subscribe = ["topic = 'question'"]
reply = {{ to = "topic = 'question'", with = {{ topic = "answer" }}, probability = 0.5 }}

[[clients]]
id = "listens"
broker = "b"
subscribe = ["topic = 'answer'", "topic = 'question'"]
publish = {{ every = [0.005, 0.01], from = 0.9, until = 1.4, attributes = {{ topic = "question" }} }}

[[steps]]
at = 1.0
{operation}
"""
OPERATIONS = {
    "swap": 'do = "swap"\nbrokers = ["a", "b", "c"]',
    "exchange": 'do = "exchange"\nremove = ["b", "c"]\nadd = ["n", "c"]\nprotocol = "auto"',  # a cycle of four
    "add": 'do = "add_broker"\nbroker = "x"\nto = "b"',
    "remove": 'do = "remove_broker"\nbroker = "n"',
}
MOMENTS = [round(1.0 + 0.003 * step / FACTOR, 4) for step in range(9 * FACTOR)]


def flaws(operation, ordering, deaths):
    scenario = parse_scenario(NETWORK.format(ordering=ordering, operation=OPERATIONS[operation]), "meanwhile.toml")
    crashes = [Crash(at=at, broker=broker, for_good=True) for broker, at in deaths]  # also of one that may have left
    watched = Watched(msgspec.structs.replace(scenario, steps=(*scenario.steps, *crashes)), 1)
    verdict = watched.finish()
    return [*watched.flaws, *violations(verdict)]


@pytest.mark.parametrize(
    ("operation", "dying"),
    [
        ("swap", "a"),
        ("swap", "b"),
        ("swap", "c"),
        ("exchange", "a"),
        ("exchange", "c"),
        ("add", "x"),
        ("add", "b"),
        ("remove", "n"),
        ("remove", "a"),
    ],
)
@pytest.mark.parametrize("ordering", ["fifo", "causal"])
def test_at_every_moment(operation, dying, ordering):
    found = {at: flaws(operation, ordering, [(dying, at)]) for at in MOMENTS[operation == "add" :]}
    assert {at: each for at, each in found.items() if each} == {}


@pytest.mark.parametrize("dying", list(itertools.combinations("abc", 2)), ids="".join)
@pytest.mark.parametrize("later", [0.0, 0.21], ids=["at once", "while the first death is being settled"])
def test_two_of_a_swap(dying, later):
    one, other = dying
    moments = [round(1.0 + 0.004 * step, 4) for step in range(1, 6)]
    found = {at: flaws("swap", "causal", [(one, at), (other, round(at + later, 4))]) for at in moments}
    assert {at: each for at, each in found.items() if each} == {}


@pytest.mark.parametrize("seed", range(0, len(SETTINGS) * FACTOR, 4))
def test_random_networks_that_are_rewoven_where_brokers_die(seed):
    healed = judge_healing(seed, worse=[Worse.REWEAVING])
    assert not healed.flaws, replay(healed, [Worse.REWEAVING])


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(76, id="the heir of one that left has its clients"),
        pytest.param(83, id="who has handed its clients to a dead broker begins anew"),
        pytest.param(84, id="what came between the news and the testimony comes once"),
        pytest.param(1000, id="and also if it was down when its heir died"),
        pytest.param(1158, id="what one said that has left is not said to the stand-in"),
        pytest.param(2073, id="a testimony that was put off dies with its witness"),
        pytest.param(2277, id="what passes by the one in the middle is not told by strangers"),
    ],
)
def test_schedules_that_showed_a_flaw(seed):
    healed = judge_healing(seed, worse=[Worse.REWEAVING])
    assert not healed.flaws, replay(healed, [Worse.REWEAVING])


def test_and_one_with_relapses():
    """The witness was down, and what it had to pass on came after what a stranger had told."""
    assert judge_healing(317, worse=[Worse.RELAPSES, Worse.REWEAVING]).flaws == []


def test_a_witness_that_was_down_for_two_stand_ins_testifies_once():
    assert judge_healing(7040, worse=[Worse.RELAPSES]).flaws == []


class TestFates:
    """The table of swaplink/failures.py."""

    @staticmethod
    def of(role, phase, *dead):
        return fate(Swapping("1", "a", "b", "c", role, is_corrected=True, phase=phase, dead=sorted(dead)))

    @pytest.mark.parametrize("phase", [SwapPhase.LOCKED, SwapPhase.FLOODING])
    @pytest.mark.parametrize("dead", ["a", "c", "ac"])
    def test_b_gives_up_until_it_has_passed_the_tables_on(self, phase, dead):
        assert self.of(SwapRole.B, phase, *dead) is SwapFate.GIVE_UP

    def test_then_it_waits_for_who_is_left(self):
        assert self.of(SwapRole.B, SwapPhase.SWAPPING, "a") is SwapFate.WAIT
        assert self.of(SwapRole.B, SwapPhase.SWAPPING, "c") is SwapFate.WAIT
        assert self.of(SwapRole.B, SwapPhase.SWAPPING, "a", "c") is SwapFate.UNDO

    @pytest.mark.parametrize("dead", ["a", "b", "ab"])
    def test_c_completes_what_it_has_adopted(self, dead):
        assert self.of(SwapRole.C, SwapPhase.SWAPPING, *dead) is SwapFate.COMPLETE

    def test_and_undoes_what_it_has_not(self):
        assert self.of(SwapRole.C, SwapPhase.FLOODING, "b") is SwapFate.UNDO
        assert self.of(SwapRole.C, SwapPhase.FLOODING, "a") is SwapFate.WAIT

    def test_a_asks_b_to_let_go_of_a_dead_c(self):
        assert self.of(SwapRole.A, SwapPhase.SWAPPING, "c") is SwapFate.ASK
        assert self.of(SwapRole.A, SwapPhase.SWAPPING, "b") is SwapFate.WAIT
        assert self.of(SwapRole.A, SwapPhase.SWAPPING, "b", "c") is SwapFate.UNDO
        assert self.of(SwapRole.A, SwapPhase.LOCKED, "b") is SwapFate.UNDO
        assert self.of(SwapRole.A, SwapPhase.ADOPTED, "b") is SwapFate.COMPLETE
