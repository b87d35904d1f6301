"""The rules of standbys under an adversary: small worlds whole, long random schedules, and bugs that must be found.

`python tests/long_run.py standby-rules` does the same for as long as one lets it.
"""

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from pleach.cli.explore import explore
from pleach.errors import InvalidInputError
from pleach.explore.standby_network import StandbyNetwork
from pleach.explore.standby_plants import STANDBY_PLANTS
from pleach.explore.standby_search import StandbySearch, walk
from pleach.explore.standby_world import STANDBY_WORLDS, Bounds, Budget, StandbySetting, StandbyWorld

STATES_MAX = 100_000
PROMOTION = Budget(publications=1, ticks=0, seeks=1, answers=0, breaks=0, crashes=0)
REPLACEMENT = Budget(publications=1, ticks=2, seeks=0, answers=1, breaks=0, crashes=0)
SERVING_SECONDS_MAX = 10.0  # times `after`
DEEP = StandbySetting(
    fresh=("x",),
    budget=Budget(publications=4, ticks=14, seeks=5, answers=8, breaks=3, crashes=2, handovers=1),
    bounds=Bounds(view=6, ballot=6, queue=6),
)
THREE_COPIES = StandbySetting(("p", "s", "t"), ("v", "w"), wanted=3, budget=DEEP.budget, bounds=DEEP.bounds)
WHOLE = StandbySetting(
    is_reduced=False,
    budget=Budget(publications=4, ticks=40, seeks=0, answers=0, breaks=3, crashes=2, deaths=1),
    bounds=Bounds(view=6, ballot=6, queue=6),
)


def searched(budget, **setting):
    return StandbySearch(StandbySetting(budget=budget, **setting), STATES_MAX)


@pytest.mark.parametrize(
    ("budget", "states"),
    [
        pytest.param(PROMOTION, 1_098, id="a promotion while a client publishes"),
        pytest.param(REPLACEMENT, 2_080, id="a replacement while a client publishes"),
        pytest.param(PROMOTION._replace(crashes=1), 16_851, id="a promotion, and a crash of anyone"),
        pytest.param(PROMOTION._replace(breaks=1), 5_478, id="a promotion, and a connection that breaks"),
        pytest.param(PROMOTION._replace(deaths=1), 2_767, id="a promotion, and a death"),
        pytest.param(PROMOTION._replace(publications=2), 6_484, id="a promotion while two clients publish"),
        pytest.param(REPLACEMENT._replace(breaks=1), 10_698, id="a replacement, and a connection that breaks"),
        pytest.param(REPLACEMENT._replace(handovers=1, ticks=0), 3_673, id="a standby that is invited"),
    ],
)
def test_a_small_world_is_explored_whole(budget, states):
    result = searched(budget).run()
    assert result.broken == "", "\n".join(result.schedule)
    assert result.complete
    assert result.states == states


@pytest.mark.parametrize("setting", [DEEP, THREE_COPIES, WHOLE], ids=["fresh machine", "three copies", "all messages"])
def test_long_random_schedules(setting):
    world = StandbyWorld(setting)
    for seed in range(6):
        steps, broken, schedule = walk(world, seed, 300)
        assert broken == "", "\n".join((f"seed {seed}", *schedule))
        assert steps > 20


@pytest.mark.parametrize("budget", [REPLACEMENT, PROMOTION._replace(crashes=1), PROMOTION._replace(deaths=1)])
def test_a_primary_serves_again_from_every_kind_of_state(budget):
    search = searched(budget)
    states = []
    search.run(states.append)
    for state in states[:: max(1, len(states) // 60)]:
        network = StandbyNetwork.resumed(search.world, state)
        is_served = network.seconds_to_confirm("more", SERVING_SECONDS_MAX) is not None
        assert is_served or not network.is_able, search.told(state)


@pytest.mark.parametrize("plant", ["confirm-by-few", "copy-not-whole", "confirm-while-closed", "serve-early"])
def test_a_bug_is_found_in_a_small_world(plant):
    rules = STANDBY_PLANTS[plant]
    budgets = (PROMOTION, REPLACEMENT._replace(breaks=1), PROMOTION._replace(crashes=1))
    found = [result for each in budgets if (result := searched(each, rules=rules).run()).broken]
    assert found
    assert found[0].schedule


@pytest.mark.parametrize(
    "plant",
    [
        "propose-over-accepted",
        "accept-a-lower-ballot",
        "install-without-majority",
        "promise-not-saved",
        "fill-in-place",
    ],
)
def test_a_bug_is_found_by_random_schedules(plant):
    world = StandbyWorld(replace(DEEP, rules=STANDBY_PLANTS[plant]))
    assert any(walk(world, seed, 400)[1] for seed in range(250))


# The command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(monkeypatch):
    """Runs `pleach explore`; gives its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command("explore")(explore)

    def run(*words):
        result = CliRunner().invoke(app, words)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout

    return run


def test_a_bug_is_explained(typed):
    code, said = typed("--standby", "--plant", "confirm-by-few")
    assert code == 1
    assert "I2: s is a copy of view 1 and lacks what was confirmed" in said
    assert "2  p: write" in said


def test_worlds_are_told_one_by_one_and_what_was_not_visited(typed):
    code, said = typed("--standby", "--states", "50")
    assert code == 2
    assert said.count("and there are more") == len(STANDBY_WORLDS)
    code, said = typed("--standby", "--states", "50", "--json")
    assert [*json.loads(said)] == [*STANDBY_WORLDS]


def test_what_cannot_be_explored_is_said(typed):
    with pytest.raises(InvalidInputError, match="give a scenario file, or --standby"):
        typed()
    with pytest.raises(InvalidInputError, match="unknown bug 'confirm-by-none'; did you mean"):
        typed("--standby", "--plant", "confirm-by-none")
