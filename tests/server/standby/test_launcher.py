"""Brokers that a machine starts as processes of their own: with which settings, and what becomes of them."""

import asyncio
import os
import signal
import tomllib

import msgspec
import pytest

from pleach.server.settings import BrokerSettings
from pleach.server.standby.launcher import PID, READY, BrokerLauncher, as_toml, settings_here
from support.live.tiny_broker import until

HOST = BrokerSettings("h", client_listen="127.0.0.1:7100", client_advertise="h.example:7100", zone="south")


def test_the_settings_are_the_brokers_on_addresses_of_its_host(tmp_path):
    own = BrokerSettings("x", parent="a", peers={'q"\\': "127.0.0.1:5"}, routing="merging", zone='north "1"')
    made = settings_here(own, HOST, tmp_path / "x")
    assert msgspec.convert(tomllib.loads(as_toml(made)), BrokerSettings) == made
    assert (made.name, made.parent, made.peers, made.zone) == (own.name, own.parent, own.peers, own.zone)
    assert made.client_listen != HOST.client_listen
    assert made.client_advertise == f"h.example:{made.client_listen.rpartition(':')[2]}"
    assert made.data_dir == str(tmp_path / "x" / "data")


@pytest.mark.live
def test_one_that_crashes_is_started_again_and_stops_with_its_host(tmp_path):
    async def story():
        launcher = BrokerLauncher()
        launcher.prepare()
        launcher.start(settings_here(BrokerSettings("x"), HOST, tmp_path), tmp_path)
        await until((tmp_path / READY).exists)
        first = launcher.launched["x"]
        assert launcher.place_of("x")
        (tmp_path / READY).unlink()
        os.kill(first, signal.SIGKILL)
        await until((tmp_path / READY).exists)
        assert launcher.launched["x"] not in (0, first)
        assert (tmp_path / PID).read_text().strip() == str(launcher.launched["x"])
        await launcher.stop()

    asyncio.run(story())
