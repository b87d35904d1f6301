"""What an operators' port answers: no page of another site can ask for anything, whatever its name points to."""

import asyncio
import contextlib
import json
import socket

import pytest

from pleach.net.allowed_hosts import Hosts, why_foreign
from pleach.net.http_client import ask
from pleach.server.settings import BrokerSettings, host_names
from support.live.daemons import chain
from support.web.dashboard_requests import Talk

NAMED = BrokerSettings(
    "b", admin_listen="Desk.Example:7300", admin_advertise="b.example:7300", advertise="peer.example:1"
)
SWAP = {"a": "a", "b": "b", "c": "c"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:7300", "[::1]:7300", "10.0.0.2", "LOCALHOST:1", "desk.example:7300", "b.example", "peer.example:7300"],
)
def test_addresses_and_names_that_an_operator_has_configured_are_known(host):
    assert Hosts(host_names(NAMED)).why_unknown({"host": host}) == ""


def test_the_machine_has_a_name_too():
    assert Hosts(host_names(BrokerSettings("b"))).why_unknown({"host": f"{socket.gethostname()}:7300"}) == ""


@pytest.mark.parametrize("host", ["evil.example:7300", "", ":7300", "127.0.0.1.evil.example", "b.example.evil.example"])
def test_a_name_that_was_pointed_at_us_is_not(host):
    assert "nothing here is called" in Hosts(host_names(NAMED)).why_unknown({"host": host})


@pytest.mark.parametrize("host", ["127.0.0.1:99999", "[::1", "::1]:80", "localhost:x", "me@localhost"])
def test_what_is_no_address_with_or_without_a_port_is_not_either(host):
    assert repr(host) in Hosts().why_unknown({"host": host})


def test_browsers_tell_where_a_request_comes_from():
    host = {"host": "127.0.0.1:7300"}
    assert why_foreign(host) == ""
    assert why_foreign({**host, "origin": "http://127.0.0.1:7300", "sec-fetch-site": "same-origin"}) == ""
    assert "evil.example" in why_foreign({**host, "origin": "http://evil.example"})
    assert "9999" in why_foreign({**host, "origin": "http://127.0.0.1:9999"})
    assert "null" in why_foreign({**host, "origin": "null"})
    assert "another site" in why_foreign({**host, "sec-fetch-site": "cross-site"})
    assert "another site" in why_foreign({**host, "sec-fetch-site": "same-site"})


# On a port ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory):
    """Runs something against one broker, that is there for all of these tests."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        running = runner.run(stack.enter_async_context(chain(tmp_path_factory.mktemp("hosts"))))
        yield lambda act: runner.run(act(running.ready["a"].admin))
        runner.run(stack.aclose())


async def post(admin, path, body, **fields):
    """As a browser would, or whoever else."""
    return await Talk(int(admin.rpartition(":")[2])).ask("POST", path, json.dumps(body).encode(), **fields)


@pytest.mark.parametrize(
    "path", ["/overlay/swap", "/overlay/expect", "/overlay/remove", "/overlay/move", "/debug/keep"]
)
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"Host": "evil.example:7300"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_no_action_is_done_for_another_site(one_broker, path, fields, code):
    answer = one_broker(lambda admin: post(admin, path, {"broker": "z"}, **fields))
    assert answer.code == code
    assert answer.value["remedy"]


async def get(admin, path, **fields):
    return await Talk(int(admin.rpartition(":")[2])).ask("GET", path, **fields)


GET_PATHS = (
    *("/healthz", "/readyz", "/metrics", "/status", "/glance", "/components"),
    *("/overlay/operations", "/overlay/operations/x", "/nowhere"),
)


@pytest.mark.parametrize("path", GET_PATHS)
@pytest.mark.parametrize("host", ["evil.example:7300", ""])
def test_nothing_is_told_by_a_name_that_was_pointed_at_us(one_broker, path, host):
    answer = one_broker(lambda admin: get(admin, path, Host=host))
    assert answer.code == 421
    assert "--admin-advertise" in answer.value["remedy"]
    assert one_broker(lambda admin: get(admin, path)).code != 421


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_monitors_may_come_by_address_and_by_names_of_the_machine(one_broker, path):
    for host in ("127.0.0.1:7300", "10.0.0.2", "localhost", socket.gethostname()):
        assert one_broker(lambda admin, host=host: get(admin, path, Host=host)).code == 200


def test_a_swap_by_a_name_of_the_machine_is_done(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            admin = running.ready["a"].admin
            port = admin.rpartition(":")[2]
            foreign = await post(admin, "/overlay/swap", SWAP, Host="evil.example")
            before = list((await ask(admin, "/status")).value["neighbours"])
            done = await ask(f"localhost:{port}", "/overlay/swap", SWAP)
            return foreign, before, done, list((await ask(admin, "/status")).value["neighbours"])

    foreign, before, done, after = asyncio.run(story())
    assert foreign.code == 421
    assert before == ["b"]
    assert done.is_ok
    assert after == ["c"]
