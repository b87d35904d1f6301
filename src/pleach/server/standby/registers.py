"""What a machine keeps of itself and of brokers' views, in files that are replaced as a whole.

    <data_dir>/standby/machine.id           which machine this is: the name of its process, and its life
    <data_dir>/standby/<broker>/register    a member's register (core/standby/views.py)

Rule 1: a file is on disk, with its name, when a call that writes it returns.
Rule 2: damage is told, and nothing is made up instead: a member that forgot a promise would give it twice.
Rule 3: another disk is another machine. The life is drawn when the folder is made, so that a machine that comes back
        without its registers is not taken for one that has promised nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from struct import Struct
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

from pleach.core.messages import Node
from pleach.core.standby.views import Machine, Register
from pleach.disk.private_files import make_private_folder, open_private, sync_folder
from pleach.errors import StoreDamagedError, StoreError

FOLDER, MACHINE, REGISTER = "standby", "machine.id", "register"
FILE_BYTES_MAX = 1_048_576
LIFE_MARK = "#"
REGISTER_REMEDY = (
    "Delete the folder that it is in: this machine then has no vote in the present view of the broker, and the primary "
    "fills a new copy. Where this machine was the primary, promote a standby instead (pleach standby promote)"
)
MACHINE_REMEDY = "Delete it: this machine then counts as a new one, and brokers fill new copies"

_HEAD = Struct(">4sI")  # what it is, and the CRC of the rest
_MARK = b"PLR1"


# Machines --------------------------------------------------------------------------------------------------------


def machine_of(data_dir: Path | str, name: Node) -> Machine:
    """The machine that this data directory is; drawn at the first call. Raises StoreError."""
    path = Path(data_dir) / FOLDER / MACHINE
    make_private_folder(path.parent)
    known = _read(path)
    if known is None:
        known = f"{name}{LIFE_MARK}{time.time_ns()}".encode()
        replace_file(path, known)
    try:
        machine = known.decode()
    except UnicodeDecodeError:
        raise StoreDamagedError(path, "it is no text", MACHINE_REMEDY) from None
    if not machine.rpartition(LIFE_MARK)[2].isdecimal():
        raise StoreDamagedError(path, "it names no machine", MACHINE_REMEDY)
    if display(machine) != name:
        raise StoreError(f"{path} is of {display(machine)}, not of {name}: give the data directory of {name}")
    return machine


def display(machine: Machine) -> Node:
    """The name of a machine's process, for people, and for its certificate."""
    return machine.rpartition(LIFE_MARK)[0] or machine


def life(machine: Machine) -> int:
    """When the machine's folder was made."""
    text = machine.rpartition(LIFE_MARK)[2]
    return int(text) if text.isdecimal() else 0


# Registers -------------------------------------------------------------------------------------------------------


def broker_folder(data_dir: Path | str, broker: Node) -> Path:
    """Where a machine keeps what it has of a broker."""
    return Path(data_dir) / FOLDER / folder_name(broker)


def folder_name(broker: Node) -> str:
    """No such name has a dot in it, and those of files beside them do."""
    return quote(broker, safe="").replace(".", "%2E")


def broker_of(folder: Path) -> Node:
    return unquote(folder.name)


class RegisterFile:
    def __init__(self, folder: Path) -> None:
        """`folder` is made when the register is first saved."""
        self.path = folder / REGISTER

    def load(self) -> Register | None:
        """None: there has been none. Raises StoreDamagedError, StoreError."""
        data = _read(self.path)
        if data is None:
            return None
        if len(data) < _HEAD.size:
            raise StoreDamagedError(self.path, f"{len(data)} bytes are no register", REGISTER_REMEDY)
        mark, checksum = _HEAD.unpack_from(data)
        body = data[_HEAD.size :]
        if mark != _MARK or crc32(body) != checksum:
            raise StoreDamagedError(self.path, "the checksum is wrong", REGISTER_REMEDY)
        try:
            return msgspec.msgpack.decode(body, type=Register)
        except msgspec.DecodeError as error:
            raise StoreDamagedError(self.path, str(error), REGISTER_REMEDY) from None

    def save(self, register: Register) -> None:
        """It is on disk when this returns. Raises StoreError; then the former one is there still."""
        body = msgspec.msgpack.encode(register)
        make_private_folder(self.path.parent)
        replace_file(self.path, _HEAD.pack(_MARK, crc32(body)) + body)


# Files -----------------------------------------------------------------------------------------------------------


def replace_file(path: Path, data: bytes) -> None:
    """Write a private file as a whole, durably. Raises StoreError."""
    partial = path.with_name(f"{path.name}.new")
    try:
        partial.unlink(missing_ok=True)
        descriptor = open_private(partial)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}; make room, or check the disk") from None


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}; check the disk and the owner of the file") from None
    if len(data) > FILE_BYTES_MAX:
        raise StoreDamagedError(path, f"more than {FILE_BYTES_MAX:,} bytes", REGISTER_REMEDY)
    return data
