"""Reconfigurations asked for over HTTP: what is refused and how, what is done, and how one learns of it later."""

import asyncio
import json

import pytest

from pleach.core.effects import Concluded, Observe, Observed, phase_seen
from pleach.core.messages import RequestSwap
from pleach.operate.operation import OperationState, fresh_name
from pleach.server.operations import HISTORY_MAX, Operations
from support.live.broker_process import BrokerProcess, chain, eventually, processes


def post(broker: BrokerProcess, path, body, *, kind="application/json"):
    code, text = broker.post(path, body if isinstance(body, bytes) else json.dumps(body).encode(), kind)
    return code, json.loads(text)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with processes() as start:
        yield chain(start, tmp_path_factory.mktemp("steering"))


@pytest.mark.parametrize(
    ("path", "body", "code", "error"),
    [
        ("swap", b"{", 400, "truncated"),
        ("swap", b"\xff\xfe", 400, ""),
        ("swap", b"[" * 4_000, 400, ""),
        ("swap", {"a": "a", "b": "b"}, 400, "required field `c`"),
        ("swap", {"a": "a", "b": "b", "c": ""}, 400, "length >= 1"),
        ("swap", {"a": "a", "b": "b", "c": "c", "colour": "red"}, 400, "unknown field `colour`"),
        ("swap", {"a": "a", "b": "b", "c": "c", "timeout": 1e9}, 400, "<= 600"),
        ("swap", {"a": "a", "b": "b", "c": "c", "operation": "no/slash"}, 400, "regex"),
        ("swap", {"a": "b", "b": "a", "c": "c"}, 400, "this is a"),
        ("swap", {"a": "a", "b": "c", "c": "b"}, 409, "not linked"),
        ("swap", {"a": "a", "b": "b", "c": "z"}, 409, "not linked"),
        ("swap", {"a": "a", "b": "b", "c": "b"}, 409, "three different"),
        ("add", {"to": "c", "address": "127.0.0.1:1"}, 409, "in a tree already"),
        ("add", {"to": "c", "address": "nowhere"}, 400, "no address"),
        ("remove", {"broker": "b"}, 400, "this is a"),
        ("move", {"client": "k", "path": ["b", "a"]}, 400, "this is a"),
        ("move", {"client": "k", "path": []}, 400, "length >= 1"),
        ("move", {"client": "k", "path": ["a", "b"]}, 409, "a has no client k"),
        ("expect", {"broker": "a"}, 409, "this broker itself"),
        ("swap", b" " * 9_000, 413, ""),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason_and_a_remedy(brokers, path, body, code, error):
    a, _, _ = brokers
    before = a.status()["neighbours"].keys()
    answer = post(a, f"/overlay/{path}", body)
    assert answer[0] == code
    assert error in answer[1]["error"]
    assert answer[1]["remedy"]
    assert a.status()["neighbours"].keys() == before


def test_a_body_that_does_not_say_that_it_is_json_is_not_read(brokers):
    a, _, _ = brokers
    body = {"a": "a", "b": "b", "c": "c"}
    assert post(a, "/overlay/swap", body, kind="text/plain")[0] == 415
    assert "b" in a.status()["neighbours"]


def test_a_broker_with_several_neighbours_does_not_leave(brokers):
    _, b, _ = brokers
    code, answer = post(b, "/overlay/remove", {"broker": "b"})
    assert (code, answer["state"]) == (409, "refused")
    assert "2 neighbours" in answer["error"]


def test_a_swap_is_done_once_under_its_name_and_found_there_later(brokers):
    a, b, c = brokers
    body = {"a": "a", "b": "b", "c": "c", "operation": "first"}
    code, answer = post(a, "/overlay/swap", body)
    assert (code, answer["state"], answer["operation"]) == (200, "done", "first")
    assert post(a, "/overlay/swap", body)[0] == 200  # again: it says how that ended
    assert post(a, "/overlay/swap", {**body, "b": "z"})[0] == 409  # the name is taken
    assert a.status()["neighbours"].keys() == {"c"}
    eventually(lambda: c.status()["neighbours"].keys() == {"a", "b"})
    assert json.loads(a.get("/overlay/operations/first")[1])["state"] == "done"
    assert json.loads(a.get("/overlay/operations")[1])["operations"][0]["name"] == "first"
    assert b.get("/overlay/operations/first")[0] == 404
    code, _ = post(a, "/overlay/swap", {"a": "a", "b": "c", "c": "b", "operation": "back"})
    assert code == 200
    eventually(lambda: a.is_ready() and b.is_ready())


def test_brokers_know_where_their_neighbours_operators_go(brokers):
    a, b, c = brokers
    eventually(lambda: {n: s["admin"] for n, s in b.status()["neighbours"].items()} == admins(a, c))
    assert b.status()["addresses"]["admin"] == b.ready["admin"]


def admins(*brokers):
    return {broker.name: broker.ready["admin"] for broker in brokers}


def test_an_operation_that_takes_longer_is_told_of_later(tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True)
        c.kill()
        body = {"a": "a", "b": "b", "c": "c", "operation": "slow", "timeout": 0.2}
        code, answer = post(a, "/overlay/swap", body)
        assert (code, answer["state"], answer["operation"]) == (504, "running", "slow")
        assert "/overlay/operations/slow" in answer["remedy"]
        assert a.status()["operation"] == "slow"
        assert json.loads(a.get("/overlay/operations/slow")[1])["phase"]
        a.kill()
        a.start()
        assert json.loads(a.get("/overlay/operations/slow")[1])["state"] == "running"
        c.start()
        eventually(lambda: json.loads(a.get("/overlay/operations/slow")[1])["state"] == "done")
        eventually(lambda: c.status()["neighbours"].keys() == {"a", "b"})
        assert b.status()["neighbours"].keys() == {"c"}


def test_a_leaf_leaves_and_its_process_ends_with_0(tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True)
        code, answer = post(c, "/overlay/remove", {"broker": "c"})
        assert (code, answer["state"]) == (200, "done")
        assert c.wait() == 0
        assert "out of the tree" in c.log()
        assert b.status()["neighbours"].keys() == {"a"}
        c.start()  # the same directory, to join anew: it stays
        assert post(a, "/overlay/expect", {"broker": "c"}) == (200, {"expected": "c"})
        code, answer = post(c, "/overlay/add", {"to": "a", "address": a.ready["peer"]})
        assert (code, answer["state"]) == (200, "done"), answer
        eventually(lambda: a.status()["neighbours"].keys() == {"b", "c"} and a.is_ready())


# Without a process -------------------------------------------------------------------------------------------------


def test_the_history_is_bounded_and_what_runs_is_never_forgotten():
    operations = Operations(lambda _: None)

    async def story():
        operations.request(RequestSwap("running", "a", "b", "c"))
        for number in range(HISTORY_MAX + 10):
            operations.request(RequestSwap(str(number), "a", "b", "c"))
            operations.conclude(Concluded(str(number)))

    asyncio.run(story())
    assert len(operations.recent) == HISTORY_MAX
    assert operations["running"].state is OperationState.RUNNING
    assert "0" not in operations
    assert operations.running == 1


def test_the_first_end_of_an_operation_counts_and_phases_are_its_own():
    operations = Operations(lambda _: None)

    async def story():
        end = operations.request(RequestSwap("x", "a", "b", "c"))
        operations.observe(phase_seen("swap", "x", "a locked"))
        operations.observe(phase_seen("swap", "y", "a flooding"))
        operations.observe(Observe(Observed.STATE, detail="nothing of the kind"))
        assert operations["x"].phase == "a locked"
        operations.conclude(Concluded("x"))
        operations.conclude(Concluded("x", "too late"))
        assert (await end).refusal == ""

    asyncio.run(story())
    assert (operations["x"].state, operations["x"].reason) == (OperationState.DONE, "")


def test_names_are_short_and_differ():
    names = {fresh_name() for _ in range(1_000)}
    assert len(names) == 1_000
    assert all(len(name) <= 8 and name.isalnum() for name in names)
