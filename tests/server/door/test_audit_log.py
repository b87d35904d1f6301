"""The audit log by itself: what is on disk when, and what happens where the disk fails."""

import asyncio
import errno
import json
import os
from http import HTTPMethod, HTTPStatus

import pytest

from pleach.access.principals import Verb
from pleach.errors import AuditError
from pleach.net.allowed_hosts import Hosts
from pleach.server.door import audit_log
from pleach.server.door.audit_log import STRANGERS_PER_SECOND, AuditLog
from pleach.server.http.caller import Caller, LoginWay
from pleach.server.http.page import HttpRequest, json_page
from pleach.server.http.routes import Site, posts
from pleach.server.http.server import AdminServer
from support.live.hostile_http import EXPECT

OSCAR = Caller("127.0.0.1", frozenset(Verb), "oscar", LoginWay.TOKEN)
SWAP = HttpRequest(HTTPMethod.POST, "/overlay/swap", b"{}", caller=OSCAR, id="1")


class Disk:
    """Counts what is synced, and fails from then on that it is told to."""

    def __init__(self, monkeypatch):
        self.synced = []
        self.is_broken = False
        self._fsync = os.fsync
        monkeypatch.setattr(audit_log.os, "fsync", self.fsync)

    def fsync(self, descriptor):
        if self.is_broken:
            raise OSError(errno.EIO, "the disk is broken")
        self.synced.append(os.fstat(descriptor).st_size)
        self._fsync(descriptor)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def test_a_line_is_synced_before_the_call_returns(tmp_path, disk):
    file = tmp_path / "audit.log"

    async def story():
        log = AuditLog(file)
        for record in (log.asked(SWAP), log.answered(SWAP, 200)):
            await record
            assert disk.synced[-1] == file.stat().st_size

    asyncio.run(story())
    assert [json.loads(line)["stage"] for line in file.read_text().splitlines()] == ["asked", "answered"]


def test_a_disk_that_fails_is_told_and_one_that_is_well_again_is_used(tmp_path, disk):
    async def story():
        log = AuditLog(tmp_path / "audit.log")
        disk.is_broken = True
        with pytest.raises(AuditError, match="the disk is broken"):
            await log.asked(SWAP)
        disk.is_broken = False
        await log.asked(SWAP)
        assert disk.synced[-1] == (tmp_path / "audit.log").stat().st_size

    asyncio.run(story())


def test_strangers_write_a_few_lines_at_once_and_then_one_a_second(tmp_path, monkeypatch):
    """Whatever they send; the next line tells how many were left out."""
    at_once = 5
    monkeypatch.setattr(audit_log, "STRANGERS_AT_ONCE", float(at_once))
    file, now = tmp_path / "audit.log", [0.0]
    stranger = SWAP._replace(caller=Caller("10.0.0.9", frozenset()))

    async def story():
        log = AuditLog(file, clock=lambda: now[0])

        async def written(count):
            before = file.read_bytes().count(b"\n")
            for _ in range(count):
                await log.answered(stranger, 401)
            return file.read_bytes().count(b"\n") - before

        assert await written(at_once + 20) == at_once
        now[0] += 3.0
        assert await written(20) == 3 * STRANGERS_PER_SECOND
        assert json.loads(file.read_text().splitlines()[at_once])["left_out"] == 20
        now[0] += 100.0 * at_once
        assert await written(2 * at_once) == at_once
        await log.answered(SWAP, 200)  # who is known is never left out
        assert json.loads(file.read_text().splitlines()[-1])["principal"] == "oscar"

    asyncio.run(story())


def test_a_log_is_no_link_to_another_file(tmp_path):
    (tmp_path / "audit.log").symlink_to(tmp_path / "other")
    with pytest.raises(AuditError):
        AuditLog(tmp_path / "audit.log")


@pytest.mark.parametrize(
    ("fails_when", "code", "told"),
    [("never", 200, b"done"), ("asked", 503, b"nothing was changed"), ("answered", 503, b"handled, with status 200")],
)
def test_what_cannot_be_recorded_is_not_done_and_what_was_done_is_told(tmp_path, disk, fails_when, code, told):
    done = []

    async def act(asked):
        done.append(asked.body)
        disk.is_broken = fails_when == "answered"
        return json_page(HTTPStatus.OK, {"done": True})

    async def story():
        site = Site([posts("/overlay/expect", Verb.REWEAVE, act)], Hosts())
        audit = AuditLog(tmp_path / "audit.log")
        server = await AdminServer(site, recognise=lambda _: OSCAR, audit=audit).listen("127.0.0.1", 0)
        disk.is_broken = fails_when == "asked"
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(EXPECT)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        server.close()
        return answer

    answer = asyncio.run(story())
    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    assert told in answer
    assert len(done) == (fails_when != "asked")
