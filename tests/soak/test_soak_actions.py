"""What a soak does with its actions, on a network without a broker."""

import asyncio

from pleach.errors import LiveError
from pleach.harness.network import LiveNetwork
from pleach.soak import actions
from pleach.soak.log import Began, Ended, Wrong
from pleach.soak.replay import Replay
from pleach.soak.run import SoakFiles, SoakRun
from pleach.soak.settings import SoakSettings, scenario_of

SETTINGS = SoakSettings(seconds=60.0)


class Unstartable(LiveNetwork):
    """One whose machines lose power, and do not start again."""

    async def lose_power(self, machine):
        pass

    async def start_again(self, machine):
        raise LiveError(f"{machine} did not start")


def carried_out(folder, entries, *, now=0.0, kind=LiveNetwork):
    """What the log says of these actions, played again from this time on."""
    told = []

    async def play():
        scenario = scenario_of(SETTINGS)
        network = kind(scenario, folder)
        soak = SoakRun(SETTINGS, scenario, network, Replay(entries), told.append, SoakFiles(folder))
        soak._began_at = asyncio.get_running_loop().time() - now
        await soak._act()

    asyncio.run(play())
    return told


def test_a_replay_that_is_late_does_all_of_its_log(tmp_path):
    chosen = [actions.Traffic(factors={"p-b1": float(number)}) for number in range(3)]
    entries = [Began(at=57.0 + n, n=n, action=action, homes={}) for n, action in enumerate(chosen)]
    told = carried_out(tmp_path, entries, now=61.0)
    assert [entry.action for entry in told if isinstance(entry, Began)] == chosen
    assert [entry.outcome for entry in told if isinstance(entry, Ended)] == ["done"] * 3
    assert not [entry for entry in told if isinstance(entry, Wrong)]


def test_a_machine_that_does_not_start_is_wrong_and_what_a_network_refuses_is_not(tmp_path):
    chosen = [actions.PowerCut(machine="b1", seconds=0.0), actions.Swap(brokers=("b1", "b2", "b3"))]
    entries = [Began(at=0.0, n=n, action=action, homes={}) for n, action in enumerate(chosen)]
    told = carried_out(tmp_path, entries, kind=Unstartable)
    assert {entry.outcome.partition(":")[0] for entry in told if isinstance(entry, Ended)} == {"failed", "refused"}
    assert [entry.what for entry in told if isinstance(entry, Wrong)] == ["failed: b1 did not start"]
