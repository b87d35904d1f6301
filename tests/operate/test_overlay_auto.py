"""`--protocol auto`, and protocols that are named: on brokers of a network that heals, and of one that does not.

Both are a chain of four, a–b–c–d, with `fifo`. Nothing is changed but by swaps that are undone.
"""

import json

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import PlanError
from support.live.broker_process import eventually, processes

RING = ["--remove", "b-c", "--add", "a-d"]
OTHER_TREE = "a-b,a-d,c-d"
UNFIT = "would leave the cycle of path locked for good"


def chain_of_four(start, place, *extra):
    made = [start("a", place, "--neighbour", "b", "--ordering=fifo", *extra)]
    for name, after in (("b", "c"), ("c", "d"), ("d", "")):
        more = ["--neighbour", after] if after else []
        peer = f"{made[-1].name}={made[-1].ready['peer']}"
        made.append(start(name, place, "--peer", peer, "--ordering=fifo", *more, *extra))
    for broker in made:
        eventually(broker.is_ready)
    return made[0]


@pytest.fixture(scope="module")
def healing(tmp_path_factory):
    with processes() as start:
        yield chain_of_four(start, tmp_path_factory.mktemp("healing"), "--heal-after=3600")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with processes() as start:
        yield chain_of_four(start, tmp_path_factory.mktemp("plain"), "--exchange=strawman")


def run(broker, *arguments, stdin=None):
    environment = {"PLEACH_VIA": broker.ready["admin"], "COLUMNS": "200"}
    return CliRunner().invoke(app, ["overlay", *arguments], input=stdin, env=environment)


def steps_of(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["steps"]


def test_a_link_of_a_network_that_heals_is_exchanged_by_swaps(healing):
    done = run(healing, "exchange", *RING, "--protocol", "auto", "--dry-run", "--json")
    assert {(step["do"], step["protocol"]) for step in steps_of(done)} == {("swap", "swaplink")}
    assert done.stderr.startswith("swaplink: should a broker die")


def test_and_of_another_one_at_once(plain):
    done = run(plain, "exchange", *RING, "--protocol", "auto", "--dry-run", "--json")
    assert [(step["do"], step["protocol"]) for step in steps_of(done)] == [("exchange", "advanced-coordinated")]


@pytest.mark.parametrize(
    "command",
    [
        ["swap", "a", "b", "c", "--protocol", "path"],
        ["exchange", *RING, "--protocol", "path"],
        ["plan", "--to", OTHER_TREE, "--protocol", "path"],
        ["improve", "--once", "--every", "500ms", "--protocol", "path"],
    ],
)
def test_a_network_that_heals_refuses_a_protocol_for_cycles_before_anything_is_done(healing, command):
    done = run(healing, *command)
    assert isinstance(done.exception, PlanError)  # exit code 2
    assert UNFIT in str(done.exception)
    assert "take swaplink, or leave it to auto" in str(done.exception)


def test_and_a_plan_that_was_made_elsewhere(healing, plain):
    made = run(plain, "plan", "--to", OTHER_TREE, "--protocol", "path").stdout
    done = run(healing, "apply", "-", stdin=made)
    assert isinstance(done.exception, PlanError)
    assert UNFIT in str(done.exception)
    assert "make the plan anew, with --via" in str(done.exception)


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("swap", {"a": "a", "b": "b", "c": "c", "protocol": "path"}),
        ("exchange", {"path": ["a", "b", "c", "d"], "cut": 1, "protocol": "path"}),
    ],
)
def test_so_do_its_brokers_whoever_asks(healing, what, body):
    code, text = healing.post(f"/overlay/{what}", json.dumps(body).encode())
    told = json.loads(text)
    assert (code, UNFIT in told["error"], told["remedy"]) == (409, True, "take swaplink, or leave it to auto")
    assert json.loads(healing.get("/overlay/operations")[1])["operations"] == []


def test_a_swap_by_auto_is_a_swaplink_whatever_the_broker_is_set_up_with(plain):
    there = run(plain, "swap", "a", "b", "c", "--protocol", "auto", "--json")
    assert there.exit_code == 0, there.output
    assert "swaplink: one swap does it" in there.stderr
    (step,) = json.loads(there.stdout)["steps"]
    assert step["step"] == {"do": "swap", "a": "a", "b": "b", "c": "c", "protocol": "swaplink"}
    (operation,) = json.loads(plain.get("/overlay/operations")[1])["operations"]
    assert operation["what"] == "swap"
    assert run(plain, "swap", "a", "c", "b", "--protocol", "auto").exit_code == 0


def test_a_plan_to_a_tree_exchanges_each_link_as_auto_would(healing, plain):
    (step,) = steps_of(run(plain, "plan", "--to", OTHER_TREE, "--protocol", "auto"))
    assert step == {"do": "exchange", "remove": ["b", "c"], "add": ["a", "d"], "protocol": "advanced-coordinated"}
    swaps = steps_of(run(healing, "plan", "--to", OTHER_TREE, "--protocol", "auto"))
    assert [(step["do"], step["protocol"]) for step in swaps] == [("swap", "swaplink")] * 2


def test_whoever_looks_again_and_again_is_told_that_it_heals(healing, plain):
    """The steward of a ring and the loop that improves trees read /glance."""
    assert json.loads(healing.get("/glance")[1])["heal"]["after"] == 3600.0
    assert json.loads(plain.get("/glance")[1])["heal"] is None
