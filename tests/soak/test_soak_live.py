"""A soak of seconds, on real processes; and a fault that is planted is found."""

import asyncio

from pleach.harness.network import LiveNetwork
from pleach.harness.scenario_faults import for_processes
from pleach.net.http_client import ask
from pleach.soak import actions
from pleach.soak.log import Began, Ended, Finished, Minute, SoakLog, Wrong, read_log
from pleach.soak.report import SoakResult, write_report
from pleach.soak.run import SoakFiles, SoakRun, Telling, soak
from pleach.soak.settings import SoakSettings, environment_of, scenario_of

SHORT = SoakSettings(seconds=60.0, brokers=4, per_second=60.0, movers=2, every=0.5)


class Script:
    """These actions, one after the other."""

    def __init__(self, *chosen):
        self._left = list(chosen)

    def pause(self, _now):
        return 0.2 if self._left else None

    def choose(self, _seen):
        return self._left.pop(0)


def test_a_short_soak_is_clean_and_leaves_a_log_and_a_report(tmp_path):
    script = Script(
        actions.Storm(client="s-b1", filters=("price > 20", "price > 60"), seconds=0.5),
        actions.Cut(link=("b1", "b2"), seconds=0.5),
        actions.Kill(broker="b3", seconds=0.0),
        actions.Settle(),
        actions.MoveClient(client="m0", to="b4"),
        actions.MoveClient(client="k-b1", to="b3"),
        actions.Settle(),
        actions.SlowDisk(broker="b1", delay=0.05, seconds=0.5),
        actions.FullDisk(broker="b2", seconds=0.5),
        actions.Stop(machine="b4", seconds=0.5),
        actions.Settle(),
    )
    told = []
    asyncio.run(soak(SHORT, script, tmp_path, told.append))
    entries = read_log(SoakFiles(tmp_path).log)
    assert entries == told
    assert not [entry for entry in entries if isinstance(entry, Wrong)]
    assert [entry.outcome for entry in entries if isinstance(entry, Ended)] == ["done"] * 11
    (end,) = [entry for entry in entries if isinstance(entry, Finished)]
    assert (end.outcome, end.found) == ("clean", {})
    assert end.deliveries > end.published > 100
    minute = next(entry for entry in entries if isinstance(entry, Minute))
    assert minute.used.memory_bytes > minute.used.processes * 10_000_000
    assert SoakResult(entries).is_good
    assert "clean" in write_report(entries, tmp_path).read_text()


class Saboteur(Script):
    """Damages all tables, and tells the judge nothing of it."""

    def __init__(self, network):
        super().__init__(actions.Settle())
        self._network = network
        self._done = []

    def choose(self, seen):
        for address in self._network.directory.admin.values():
            body = {"what": "table", "share": 1.0, "seed": 1}
            self._done.append(asyncio.create_task(ask(address, "/debug/corrupt", body)))
        return super().choose(seen)


def test_damage_that_nobody_speaks_of_is_found(tmp_path):
    files = SoakFiles(tmp_path)
    files.machines.mkdir()
    told = asyncio.run(sabotaged(files))
    (end,) = [entry for entry in told if isinstance(entry, Finished)]
    assert end.outcome == "violated"
    assert end.found.get("lost", 0) > 0
    assert [entry for entry in told if isinstance(entry, Wrong) and entry.what.startswith("lost")]
    assert list(files.violations.iterdir())


async def sabotaged(files):
    scenario = for_processes(scenario_of(SHORT))
    told = []
    async with LiveNetwork(scenario, files.machines, settings=environment_of(SHORT)) as network:
        with SoakLog(files.log) as log:
            await SoakRun(SHORT, scenario, network, Saboteur(network), Telling(log, told.append), files).go()
    return told


def test_a_soak_that_is_told_to_end_ends_with_a_verdict(tmp_path):
    """What is under way then, a cut here, is undone first."""
    entries = asyncio.run(interrupted(tmp_path))
    kinds = [type(entry) for entry in entries if isinstance(entry, Began | Ended | Finished)]
    assert kinds == [Began, Ended, Finished]
    assert entries[-1].outcome == "clean"


async def interrupted(folder):
    told, has_begun = [], asyncio.Event()

    def tell(entry):
        told.append(entry)
        if isinstance(entry, Began):
            has_begun.set()

    script = Script(actions.Cut(link=("b1", "b2"), seconds=1.0), actions.Settle())
    work = asyncio.create_task(soak(SHORT, script, folder, tell))
    await has_begun.wait()
    work.cancel()
    await work
    return told
