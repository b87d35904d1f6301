"""Real brokers on damaged data directories: all that was confirmed is served, or exit code 2 and the remedy."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest

from pleach.core.links.endpoint import Batch, Journalled
from pleach.server.storage.database import DATABASE
from pleach.server.storage.store import Store
from support.live.broker_process import ENVIRONMENT, PLEACH, RawClient, clients, eventually, processes
from support.live.disk_damage import (
    FILTER_MARKER,
    LOG,
    MARKER,
    StartedOnDamage,
    bit_of,
    fault_of,
    faults_of_flips,
    flip,
    started_on,
    tells,
    written_under_load,
)
from support.thorough import FACTOR

FLIPS = 9 * FACTOR


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return written_under_load(tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return written_under_load(tmp_path_factory.mktemp("stopped"), ends_by="stop")


def test_without_damage_all_is_served(killed, tmp_path):
    with started_on(killed, tmp_path / "x", []) as broker:
        assert broker.code is None
        assert fault_of(broker, killed) == ""


def test_a_flipped_bit_in_the_log_hides_no_confirmed_event(killed, tmp_path):
    """12 of 40 confirmed events were gone, and the broker started."""
    for text in (f"{MARKER}-0028", f"{MARKER}-0039"):
        with started_on(
            killed, tmp_path / "x", [(LOG, bit_of(killed.directory / LOG, text.encode(), last=False))]
        ) as broker:
            assert tells(broker, DATABASE, "confirmed commits are gone from its log")


def test_a_flipped_bit_in_a_payload_is_not_delivered(stopped, tmp_path):
    bit = bit_of(stopped.directory / DATABASE, f"{MARKER}-0020".encode())
    with started_on(stopped, tmp_path / "x", [(DATABASE, bit)]) as broker:
        assert tells(broker, DATABASE, "table outbox, row ", "the checksum is wrong")


def test_a_flipped_bit_in_a_filter_does_not_start(stopped, tmp_path):
    bit = bit_of(stopped.directory / DATABASE, f"{FILTER_MARKER} = TRUE".encode())
    with started_on(stopped, tmp_path / "x", [(DATABASE, bit)]) as broker:
        assert tells(broker, DATABASE, "the checksum is wrong")


def test_a_row_of_the_journal_that_cannot_be_decoded_is_named(stopped, tmp_path):
    """Its checksum is right: it was a traceback, exit code 1, and a service manager that tries again for ever."""
    shutil.copytree(stopped.directory, tmp_path / "b")
    with Store.open(tmp_path / "b", "b", epoch=1) as store:
        row = store.journal_length + 1
        store.commit(Batch.empty()._replace(journal=[Journalled("p", b"\xc1", 0.0)]))
    broker = StartedOnDamage("b", tmp_path, durable=True)
    try:
        assert tells(broker, f"table journal, row {row}: it cannot be taken over")
    finally:
        broker.kill()


def test_a_state_that_cannot_be_decoded_is_named(stopped, tmp_path):
    shutil.copytree(stopped.directory, tmp_path / "b")
    with Store.open(tmp_path / "b", "b", epoch=1) as store:
        store.snapshot(b"\xc1")
    broker = StartedOnDamage("b", tmp_path, durable=True)
    try:
        assert tells(broker, "table node, row b: it cannot be taken over")
    finally:
        broker.kill()


def test_whichever_bit_is_flipped_a_broker_serves_all_or_refuses(tmp_path):
    assert faults_of_flips(tmp_path, 7, FLIPS) == []


def doctor(directory):
    command = [*PLEACH, "doctor", "--data-dir", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)


def test_the_doctor_finds_damage_and_changes_nothing(killed, tmp_path):
    shutil.copytree(killed.directory, tmp_path / "b")
    sound = doctor(tmp_path / "b")
    assert (sound.returncode, sound.stderr) == (0, "")
    assert "is sound: broker b, " in sound.stdout
    assert (tmp_path / "b" / LOG).read_bytes() == (killed.directory / LOG).read_bytes()
    shutil.copytree(killed.directory, tmp_path / "c")
    flip(tmp_path / "c" / LOG, 8 * 6_000)
    told = doctor(tmp_path / "c")
    assert told.returncode == 2
    assert "confirmed commits are gone" in told.stderr


def test_the_doctor_makes_no_directory(tmp_path):
    assert doctor(tmp_path / "none").returncode == 2
    assert not (tmp_path / "none").exists()


def test_data_of_a_broker_is_private(tmp_path):
    before = os.umask(0)
    try:
        with processes() as start:
            broker = start("b", tmp_path, durable=True)
            with clients(RawClient("s", broker)) as (s,):
                s.subscribe("all", "n >= 0")
                eventually(s.is_up, pumping=[s])
            modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "b").iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700
