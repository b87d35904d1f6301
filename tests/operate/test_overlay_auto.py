"""`--protocol auto`, on a chain of four, a–b–c–d, with `fifo`: nothing is changed but by a swap that is undone."""

import json

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from support.live.broker_process import eventually, processes

RING = ["--remove", "b-c", "--add", "a-d"]
OTHER_TREE = "a-b,a-d,c-d"


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
def plain(tmp_path_factory):
    with processes() as start:
        yield chain_of_four(start, tmp_path_factory.mktemp("plain"), "--exchange=strawman")


def run(broker, *arguments, stdin=None):
    environment = {"PLEACH_VIA": broker.ready["admin"], "COLUMNS": "200"}
    return CliRunner().invoke(app, ["overlay", *arguments], input=stdin, env=environment)


def steps_of(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["steps"]


def test_a_link_is_exchanged_at_once(plain):
    done = run(plain, "exchange", *RING, "--protocol", "auto", "--dry-run", "--json")
    assert [(step["do"], step["protocol"]) for step in steps_of(done)] == [("exchange", "advanced-coordinated")]


def test_a_swap_by_auto_is_a_swaplink_whatever_the_broker_is_set_up_with(plain):
    there = run(plain, "swap", "a", "b", "c", "--protocol", "auto", "--json")
    assert there.exit_code == 0, there.output
    assert there.stderr.count("swaplink: one swap does it") == 1
    (step,) = json.loads(there.stdout)["steps"]
    assert step["step"] == {"do": "swap", "a": "a", "b": "b", "c": "c", "protocol": "swaplink"}
    (operation,) = json.loads(plain.get("/overlay/operations")[1])["operations"]
    assert operation["what"] == "swap"
    assert run(plain, "swap", "a", "c", "b", "--protocol", "auto").exit_code == 0


def test_a_plan_to_a_tree_exchanges_each_link_as_auto_would(plain):
    (step,) = steps_of(run(plain, "plan", "--to", OTHER_TREE, "--protocol", "auto"))
    assert step == {"do": "exchange", "remove": ["b", "c"], "add": ["a", "d"], "protocol": "advanced-coordinated"}
