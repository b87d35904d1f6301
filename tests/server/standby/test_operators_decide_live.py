"""Two machines alone have no majority: where one is lost an operator decides, and until then all are told why."""

import asyncio

import pytest
from typer.testing import CliRunner

import pleach
from pleach.cli.main import app
from pleach.errors import ConnectError
from support.live.broker_process import eventually
from support.standby.copied_brokers import machines

pytestmark = pytest.mark.live


def two_alone(start):
    b = start("b", "--neighbour", "a")
    a = start("a", "--peer", f"b={b.address}")
    eventually(lambda: a.is_covered and b.is_covered and a.is_ready())
    return a, b


def promote(broker, at, *, says="y\n"):
    return CliRunner().invoke(app, ["standby", "promote", broker, "--via", at.ready["admin"]], input=says)


async def publish(address, name):
    async with pleach.connect(address, name=name) as client:
        await client.publish({"n": 1})


def test_who_is_left_of_two_waits_says_why_and_goes_on_when_an_operator_says_so(tmp_path):
    with machines(tmp_path) as start:
        a, b = two_alone(start)
        too_early = promote("a", a)
        assert (too_early.exit_code, "they choose others" in too_early.output) == (1, True), too_early.output
        b.destroy()
        eventually(lambda: "too few of its machines answer to choose others (b silent)" in str(a.status()["reasons"]))
        with pytest.raises(ConnectError, match=r"waits for b; too few of its machines"):
            asyncio.run(_published_while_stuck(a.ready["client"]))
        assert promote("b", a, says="n\n").exit_code == 1
        for broker in ("a", "b"):
            done = promote(broker, a)
            assert done.exit_code == 0, done.output
            assert "LOST FOR GOOD" in done.output
        eventually(lambda: a.is_ready() and a.promoted("b") is not None and a.promoted("b").is_ready())
        asyncio.run(publish(a.ready["client"], "p2"))
        fresh = start("m1", "--join", a.address, has_broker=False)
        eventually(lambda: a.is_covered and a.promoted("b").is_covered)
        assert {*fresh.told()["holds"]} == {"a", "b"}


async def _published_while_stuck(address):
    """The first one waits without end; the next is told."""
    async with asyncio.timeout(60):
        waiting = asyncio.ensure_future(publish(address, "p0"))
        await asyncio.sleep(5.0)
        try:
            await publish(address, "p1")
        finally:
            waiting.cancel()
