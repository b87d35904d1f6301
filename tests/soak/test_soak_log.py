"""The log of a soak: written as it happens, read back, played again, and told as a scenario."""

import pytest
from msgspec.structs import replace

from pleach.core.overlay.plans import Topology
from pleach.errors import InvalidInputError
from pleach.harness.scenario_faults import for_processes
from pleach.scenario.load import parse_scenario
from pleach.scenario.steps import Cut, Destroy, Heal, RemoveBroker
from pleach.sim.run import run_scenario
from pleach.soak import actions
from pleach.soak.export import exported
from pleach.soak.log import Began, Ended, Header, SoakLog, Wrong, read_log
from pleach.soak.monkey import Monkey, Seen
from pleach.soak.replay import Replay
from pleach.soak.settings import WEIGHTS, SoakSettings, scenario_of
from pleach.trace import judge

SETTINGS = SoakSettings(seconds=20.0, brokers=5, per_second=20.0, movers=2, weights=dict.fromkeys(WEIGHTS, 1.0))
SCENARIO = scenario_of(SETTINGS)
SEEN = Seen(
    tree=Topology.of(SCENARIO.links),
    homes={name: name for name in SCENARIO.brokers},
    machines=SCENARIO.brokers,
    clients={client.id: client.broker for client in SCENARIO.clients},
)


def began(*chosen, every=0.1):
    return [
        Began(at=1.0 + every * n, n=n, action=action, homes=dict(SEEN.homes))
        for n, action in enumerate(chosen, start=1)
    ]


def a_log(count=200):
    monkey = Monkey(SETTINGS)
    chosen = [action for _ in range(count) if (action := monkey.choose(SEEN)) is not None]
    return [Header(settings=SETTINGS), *began(*chosen)]


def write(path, entries):
    with SoakLog(path) as log:
        for entry in entries:
            log.write(entry)


def test_what_was_written_is_read(tmp_path):
    entries = [*a_log(), Ended(at=3.0, n=1, outcome="done", seconds=0.5), Wrong(at=4.0, what="lost")]
    write(tmp_path / "log", entries)
    assert read_log(tmp_path / "log") == entries


def test_the_last_line_of_a_run_that_was_killed_may_be_cut_short(tmp_path):
    entries = a_log()
    write(tmp_path / "log", entries)
    text = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(text[:-10])
    assert read_log(tmp_path / "log") == entries[:-1]


@pytest.mark.parametrize("text", [b"{}\n", b'{"is":"wrong","at":1.0,"what":"x"}\n', b"nonsense\n{}\n"])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "log").write_bytes(text)
    with pytest.raises(InvalidInputError):
        read_log(tmp_path / "log")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="give the log of a soak"):
        read_log(tmp_path / "none")


def test_a_replay_does_the_same_at_the_same_times():
    entries = a_log(20)
    replay = Replay(entries)
    now, done = 0.0, []
    while (pause := replay.pause(now)) is not None:
        now += pause
        done.append((now, replay.choose(SEEN)))
    assert [action for _, action in done] == [entry.action for entry in entries if isinstance(entry, Began)]
    assert [at for at, _ in done] == pytest.approx([entry.at for entry in entries if isinstance(entry, Began)])


def test_a_replay_that_is_late_goes_on_at_once():
    assert Replay(a_log(5)).pause(100.0) == 0.0


def test_whatever_the_monkey_does_can_be_told_as_a_scenario():
    """Each action of each kind is in it, as steps or as a comment at its time."""
    entries = a_log(600)
    text = exported(entries)
    scenario = parse_scenario(text)
    assert {type(step).__name__ for step in scenario.steps} >= {"Swap", "Crash", "Cut", "Partition", "Destroy", "Slow"}
    assert scenario.clients == SCENARIO.clients
    assert "slow_disk" in text
    assert for_processes(replace(scenario, steps=()))


def test_what_a_scenario_refuses_stands_as_a_comment():
    leaving = [actions.Leave(broker="b5"), actions.Leave(broker="b5")]
    text = exported([Header(settings=SETTINGS), *began(*leaving)])
    assert [type(step) for step in parse_scenario(text).steps] == [RemoveBroker]
    assert "# at 1.2 s: RemoveBroker: " in text


def test_a_step_is_told_with_what_undoes_it():
    chosen = [actions.Cut(link=("b1", "b2"), seconds=3.0), actions.Destroy(machine="b4", fresh="x1")]
    scenario = parse_scenario(exported([Header(settings=SETTINGS), *began(*chosen)]))
    assert [type(step) for step in scenario.steps] == [Cut, Destroy, Heal]
    assert scenario.standby.machines == ("x1",)


def test_the_simulator_takes_it():
    a, b = SCENARIO.links[0]
    chosen = [
        actions.Cut(link=(a, b), seconds=2.0),
        actions.Kill(broker="b3", seconds=0.5),
        actions.MoveClient(client="m1", to="b5"),
        actions.Storm(client="s-b2", filters=("price > 50",), seconds=2.0),
        actions.Stop(machine="b5", seconds=1.0),
    ]
    text = exported([Header(settings=replace(SETTINGS, seconds=8.0)), *began(*chosen, every=1.0)])
    scenario = replace(parse_scenario(text), duration=12.0)
    verdict = judge(run_scenario(scenario, 1).records)
    assert verdict.clean, verdict
    assert verdict.counts.published > 100
