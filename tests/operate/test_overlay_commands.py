"""`pleach overlay` on running brokers: what is shown, what is refused and how, what is changed."""

import json

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import InvalidInputError, PlanError, PleachError, StepError, SurveyError, TopologyError
from support.live.broker_process import RawClient, chain, clients, eventually, processes

CHAIN = [["a", "b"], ["b", "c"]]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with processes() as start:
        yield chain(start, tmp_path_factory.mktemp("overlay"))


def run(broker, *arguments, stdin=None):
    environment = {"PLEACH_VIA": broker.ready["admin"], "COLUMNS": "200"}
    return CliRunner().invoke(app, ["overlay", *map(str, arguments)], input=stdin, env=environment)


def links(broker):
    found = json.loads(run(broker, "show", "--json").stdout)["brokers"]
    return sorted([a, b] for a, status in found.items() for b in status["neighbours"] if a < b)


def back(broker, *swap):
    done = run(broker, "swap", *swap)
    assert done.exit_code == 0, done.output
    assert links(broker) == CHAIN


def test_one_address_leads_to_the_whole_tree(brokers):
    for broker in brokers:
        done = run(broker, "show")
        assert done.exit_code == 0
        assert next(iter(done.stdout.split())) == broker.name
        assert links(broker) == CHAIN


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["swap", "a", "b", "z"], StepError, "no link b–z"),
        (["swap", "a", "c", "b"], StepError, "no link a–c"),
        (["swap", "a", "b", "a"], StepError, "three brokers"),
        (["exchange", "--remove", "a-b", "--add", "b-c"], PlanError, "there already"),
        (["exchange", "--remove", "a-c", "--add", "a-b"], PlanError, "no link a–c"),
        (["exchange", "--remove", "ab", "--add", "a-b"], InvalidInputError, "not a link; write X-Y"),
        (["exchange", "--remove", "a-b", "--add", "a-c", "--protocol", "pat"], InvalidInputError, "protocol 'pat'"),
        (["exchange", "--remove", "a-b", "--add", "b-c", "--protocol", "auto"], PlanError, "there already"),
        (["swap", "a", "b", "c", "--protocol", "pat"], InvalidInputError, "swaplink, swaplink-published, strawman"),
        (["remove", "z"], TopologyError, "'z' is not a broker"),
        (["remove", "b", "--to", "z"], PlanError, "not a neighbour"),
        (["add", "d", "--to", "a"], InvalidInputError, "no broker 'd' answers"),
        (["add", "c", "--to", "a"], StepError, "in the tree already"),
        (["add", "d"], InvalidInputError, "--to BROKER or --into X-Y"),
        (["plan", "--to", "a-b,b-c,c-a"], TopologyError, "cycle"),
        (["plan", "--to", "a-b"], None, ""),
        (["apply", "nowhere.json"], InvalidInputError, "cannot be read"),
        (["show", "--via", "127.0.0.1:1"], None, "does not answer"),
        (["swap", "a", "b", "c", "--via", "127.0.0.1:1"], SurveyError, "are these admin addresses"),
    ],
)
def test_what_makes_no_sense_is_said_to_make_none_and_changes_nothing(brokers, arguments, error, says):
    done = run(brokers[0], *arguments)
    assert (error is None) == (done.exception is None or isinstance(done.exception, SystemExit))
    if error is not None:
        assert isinstance(done.exception, error)
        assert isinstance(done.exception, PleachError)  # which main turns into one line and exit code 2
    assert says in str(done.exception) + done.output
    assert links(brokers[0]) == CHAIN


def test_without_an_address_it_asks_for_one():
    done = CliRunner().invoke(app, ["overlay", "show"], env={"PLEACH_VIA": ""})
    assert isinstance(done.exception, InvalidInputError)
    assert "PLEACH_VIA" in str(done.exception)


def test_without_a_reconfiguration_it_says_so(tmp_path):
    with processes() as start:
        shown = run(start("a", tmp_path), "status")
    assert (shown.exit_code, shown.stdout) == (0, "no reconfiguration since these brokers were started\n")


def test_status_says_who_does_not_answer(tmp_path):
    with processes() as start:
        a = start("a", tmp_path, "--neighbour", "b")
        b = start("b", tmp_path, "--peer", f"a={a.ready['peer']}")
        eventually(lambda: a.is_ready() and b.is_ready())
        b.kill()
        shown = run(a, "status")
    assert shown.exit_code == 1
    assert "b does not answer: Connection refused" in shown.stdout


def test_a_dry_run_shows_the_plan_and_both_trees_and_changes_nothing(brokers):
    done = run(brokers[0], "swap", "a", "b", "c", "--dry-run")
    assert done.exit_code == 0
    assert "link a–b becomes a–c" in done.stdout
    assert "before" in done.stdout
    assert "after" in done.stdout
    assert links(brokers[0]) == CHAIN


def test_a_swap_says_what_changed_and_is_remembered(brokers):
    done = run(brokers[1], "swap", "a", "b", "c", "--json")
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert (said["links_added"], said["links_removed"]) == ([["a", "c"]], [["a", "b"]])
    assert [step["state"] for step in said["steps"]] == ["done"]
    assert links(brokers[0]) == [["a", "c"], ["b", "c"]]
    told = json.loads(run(brokers[1], "status", "--json").stdout)["brokers"]
    assert told["a"]["operations"][0]["name"] == said["steps"][0]["operation"]
    assert "swap a, b, c" in run(brokers[1], "status").stdout
    back(brokers[0], "a", "c", "b")


def test_an_exchange_is_carried_out_by_the_protocol_that_is_named(brokers):
    a = brokers[0]
    done = run(a, "exchange", "--remove", "b-c", "--add", "a-c", "--protocol", "path", "--json")
    assert done.exit_code == 0, done.output
    (step,) = json.loads(done.stdout)["steps"]
    assert step["step"] == {"do": "exchange", "remove": ["b", "c"], "add": ["a", "c"], "protocol": "path"}
    assert links(a) == [["a", "b"], ["a", "c"]]
    assert "exchange b–c by path a, b, c" in run(a, "status").stdout
    made = run(a, "plan", "--to", "a-b,b-c", "--protocol", "coordinated").stdout
    assert json.loads(made)["steps"] == [
        {"do": "exchange", "remove": ["a", "c"], "add": ["b", "c"], "protocol": "coordinated"}
    ]
    assert run(a, "apply", "-", stdin=made).exit_code == 0
    assert links(a) == CHAIN


def test_auto_says_what_it_has_chosen_and_why(brokers):
    done = run(brokers[0], "exchange", "--remove", "b-c", "--add", "a-c", "--protocol", "auto", "--dry-run")
    assert done.exit_code == 0
    assert done.stderr.startswith("swaplink: ")
    assert links(brokers[0]) == CHAIN


def test_a_plan_is_kept_applied_and_refused_for_another_tree(brokers, tmp_path):
    a = brokers[0]
    made = run(a, "plan", "--to", "a-b,a-c")
    assert made.exit_code == 0
    file = tmp_path / "plan.json"
    file.write_text(made.stdout)
    assert run(a, "apply", file).exit_code == 0
    assert links(a) == [["a", "b"], ["a", "c"]]
    again = run(a, "apply", file)
    assert isinstance(again.exception, PlanError)
    assert "another tree (planned and not there: link b–c; there and not planned: link a–c)" in str(again.exception)
    back(a, "c", "a", "b")


def test_clients_that_are_not_connected_keep_their_broker_unless_they_are_let_go(brokers):
    a, _, c = brokers
    absent = RawClient("reader", c)
    with clients(absent):
        absent.subscribe("s", "x = 1")
        absent.disconnect()
    eventually(lambda: not c.status()["clients"]["reader"]["up"])
    done = run(a, "remove", "c")
    assert done.exit_code == 1
    assert "reader" in done.output
    assert "--detach-absent" in done.output
    assert links(a) == CHAIN
    assert run(a, "remove", "c", "--detach-absent").exit_code == 0
    assert c.wait() == 0
    assert links(a) == [["a", "b"]]
    assert run(a, "remove", "b").exit_code == 0
    refused = run(a, "remove", "a")
    assert isinstance(refused.exception, PlanError)
    assert "the last broker" in str(refused.exception)
