"""What a machine keeps of itself and of views: whole or refused, never made up again."""

import os
import stat

import pytest

from pleach.core.standby.views import Ballot, Register, View
from pleach.errors import StoreDamagedError, StoreError
from pleach.server.standby.registers import RegisterFile, broker_folder, broker_of, display, machine_of

VIEW = View("b", 3, ("b#1", "c#2"), ("d#3",), {"b#1": "127.0.0.1:7200"})
REGISTER = Register(VIEW).accepting(Ballot(4, "c#2"), VIEW.promoting("c#2"))


def test_what_was_saved_is_loaded(tmp_path):
    file = RegisterFile(tmp_path / "b")
    assert file.load() is None
    for register in (Register(VIEW), REGISTER):
        file.save(register)
        assert RegisterFile(tmp_path / "b").load() == register
    assert [each.name for each in (tmp_path / "b").iterdir()] == ["register"]


def test_it_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        RegisterFile(tmp_path / "b").save(REGISTER)
        machine_of(tmp_path, "b")
    finally:
        os.umask(before)
    for path, mode in ((tmp_path / "b", 0o700), (tmp_path / "b" / "register", 0o600), (tmp_path / "standby", 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_damage_is_told_wherever_it_is(tmp_path):
    """Each byte, each length: a promise that was forgotten could be given twice."""
    file = RegisterFile(tmp_path)
    file.save(REGISTER)
    whole = file.path.read_bytes()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            file.path.write_bytes(damaged)
            with pytest.raises(StoreDamagedError, match="Delete the folder"):
                file.load()


def test_a_crash_in_the_middle_of_a_save_leaves_the_former_one(tmp_path):
    file = RegisterFile(tmp_path)
    file.save(Register(VIEW))
    (tmp_path / "register.new").write_bytes(b"half of")
    assert file.load() == Register(VIEW)
    file.save(REGISTER)
    assert file.load() == REGISTER


def test_a_disk_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    file = RegisterFile(tmp_path)
    file.save(Register(VIEW))

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(StoreError, match="No space left on device; make room"):
            file.save(REGISTER)
    assert file.load() == Register(VIEW)


def test_another_disk_is_another_machine(tmp_path):
    first, other = machine_of(tmp_path / "1", "b"), machine_of(tmp_path / "2", "b")
    assert first != other
    assert display(first) == display(other) == "b"
    assert machine_of(tmp_path / "1", "b") == first


def test_a_directory_of_another_name_is_refused(tmp_path):
    machine_of(tmp_path, "b")
    with pytest.raises(StoreError, match="is of b, not of c"):
        machine_of(tmp_path, "c")


@pytest.mark.parametrize("content", [b"", b"b", b"b#x", b"\xff#1"])
def test_a_damaged_name_of_a_machine_is_told(tmp_path, content):
    machine_of(tmp_path, "b")
    (tmp_path / "standby" / "machine.id").write_bytes(content)
    with pytest.raises(StoreDamagedError, match="counts as a new one"):
        machine_of(tmp_path, "b")


@pytest.mark.parametrize("name", ["b", "..", ".", "machine.id", "a b", "é%2E", "x" * 60])
def test_any_name_has_a_folder_of_its_own(tmp_path, name):
    folder = broker_folder(tmp_path, name)
    assert folder.parent == tmp_path / "standby"
    assert "." not in folder.name
    assert broker_of(folder) == name
