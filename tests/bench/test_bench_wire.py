"""Bytes on the wire: what the kernel counts is what was sent, and whose it is."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from pleach.bench import wire
from pleach.bench.forward import ForwardSize
from pleach.bench.systems.registry import REPLICATED
from pleach.bench.systems.system import EVENT_BYTES, Case

TINY = ForwardSize(dict.fromkeys(Case, 100), 1, 100)

pytestmark = pytest.mark.skipif(shutil.which(wire.COMMAND[0]) is None, reason="ss (iproute2) is not installed")


def test_what_was_received_is_counted_for_its_sender():
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as near:
        far, _ = door.accept()
        with far:
            names = tuple(f"{host}:{port}" for host, port in (near.getsockname(), near.getpeername()))
            before = wire.acknowledged()
            near.sendall(bytes(1_000))
            assert len(far.recv(1_000, socket.MSG_WAITALL)) == 1_000
            far.sendall(b"thanks")
            assert len(near.recv(6, socket.MSG_WAITALL)) == 6
            after = wire.acknowledged()
    own = os.getsid(0)
    assert after[names].way == (own, own)
    assert after[names].arrived - before[names].arrived == 1_000


def test_a_second_copy_costs_every_event_once_more():
    rows = {row.case: row.value for row in wire.measured([REPLICATED], TINY, "standby")}
    assert len(rows) == 8
    assert all(value > EVENT_BYTES for value in rows.values())
    at_speed = [value for case, value in rows.items() if "full speed" in case]
    *_, to_the_copy, between = at_speed
    assert to_the_copy <= between
    assert max(at_speed) < 3 * min(at_speed)


def test_without_the_command_it_is_skipped_and_said(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert not list(wire.measured([REPLICATED], TINY, "standby"))
    assert "ss (iproute2) is not installed" in capsys.readouterr().err
