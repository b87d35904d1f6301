"""An operator finds a broker that was promoted elsewhere, by any machine that knows of it."""

import asyncio

import pytest

from pleach.operate.survey import survey
from support.live.broker_process import eventually
from support.standby.copied_brokers import broker_and_hosts, machines


@pytest.fixture
def start(tmp_path):
    with machines(tmp_path) as starting:
        yield starting


def found_by(machine, page="/status"):
    return asyncio.run(survey([machine.ready["admin"]], page))


@pytest.mark.parametrize("page", ["/status", "/glance"])
def test_by_the_machine_that_runs_it_and_by_one_that_has_a_copy_or_knows_nothing(start, page):
    b, *hosts = broker_and_hosts(start, "h1", "h2", "h3")
    known = found_by(b).found["b"].standby.copies
    assert len(known) == 1
    holder = next(host for host in hosts if f"{host.name}#" in next(iter(known)))
    assert "b" in found_by(holder, page).found
    assert found_by(holder, page).unreachable == {}
    b.destroy()
    eventually(lambda: holder.promoted("b"))
    eventually(lambda: "b" in found_by(holder, page).found)
    assert found_by(holder, page).admin["b"] == holder.promoted("b").ready["admin"]
    assert found_by(holder, page).unreachable == {}
    eventually(lambda: any("b" in found_by(host, page).found for host in hosts if host is not holder))
