"""A client's state file that is damaged is refused, and says where; or the damage is where nothing is kept."""

import os
import shutil
import stat
from random import Random

import pytest

from pleach.client.state_file import COMMITTED, FILE, StateChange, StateFile
from pleach.core.events.event import Event, EventId
from pleach.core.links.endpoint import Progress, Queued
from pleach.errors import StoreDamagedError, StoreError
from support.live.disk_damage import flip
from support.thorough import FACTOR

LOG = f"{FILE}-wal"
FLIPS = 150 * FACTOR
CHANGES = 12


def change(number):
    return StateChange(
        "b",
        b"state %d" % number * 20,
        {"b": Progress(7, 3, number, max(1, number - 4)), "former": Progress(7, 2, 5, 1)},
        number % 3,
        [Queued("b", number, b"payload %d" % number * 10)],
        [(number, Event(EventId("p", 1, number), {"n": number}))],
        [number - 3],
    )


def content(directory):
    file = StateFile(directory, "s")
    try:
        return file.load()
    finally:
        file.close()


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The files of a process that was killed: as they are while it has them open; and what they say."""
    place = tmp_path_factory.mktemp("client")
    file = StateFile(place / "open", "s")
    for number in range(1, CHANGES + 1):
        file.commit(change(number))
    shutil.copytree(place / "open", place / "killed")
    file.close()
    return place, content(place / "open")


def damaged(left, how, place, name, bit):
    shutil.copytree(left[0] / how, place)
    flip(place / name, bit)
    return place


@pytest.mark.parametrize("how", ["killed", "open"], ids=["killed", "closed"])
def test_whichever_bit_is_flipped_it_is_refused_or_does_no_harm(left, tmp_path, how):
    rng = Random(3)
    refused = 0
    names = [name for name in (FILE, LOG, COMMITTED) if (left[0] / how / name).exists()]
    for n in range(FLIPS):
        name = names[n % len(names)]
        size = (left[0] / how / name).stat().st_size
        place = damaged(left, how, tmp_path / str(n), name, rng.randrange(8 * (size if n % 3 else min(size, 100))))
        try:
            assert content(place) == left[1], f"{name} of {place}"
        except StoreError:
            refused += 1
        shutil.rmtree(place)
    assert refused > FLIPS // 4


def test_a_log_that_is_cut_short_is_noticed_and_left_as_it_is(left, tmp_path):
    place = damaged(left, "killed", tmp_path / "s", LOG, 8 * 5_000)
    for _ in range(2):
        with pytest.raises(
            StoreDamagedError, match=r"confirmed commits are gone from its log\. Move the state_dir away"
        ):
            StateFile(place, "s")
    flip(place / LOG, 8 * 5_000)
    assert content(place) == left[1]


def test_a_forgotten_session_leaves_a_sound_file(left, tmp_path):
    shutil.copytree(left[0] / "open", tmp_path / "s")
    file = StateFile(tmp_path / "s", "s")
    file.forget()
    file.commit(change(1))
    file.close()
    assert content(tmp_path / "s").state == change(1).state


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        file = StateFile(tmp_path / "s", "s")
        file.commit(change(1))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "s").iterdir()}
        file.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys((FILE, LOG, COMMITTED), 0o600)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
