"""`pleach overlay plan`: what it says of itself, and what it refuses before anything is read."""

import msgspec
import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.cli.plan import _show
from pleach.core.optimise.cost import Flow
from pleach.core.optimise.prices import Prices
from pleach.core.optimise.search import Problem
from pleach.core.overlay.choice import Circumstances
from pleach.core.overlay.plans import Topology, decode_plan
from pleach.errors import InvalidInputError, PriceError
from pleach.spark.planner.options import PlannerOptions


def run(*arguments):
    return CliRunner().invoke(app, ["overlay", "plan", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})


def test_help_has_examples():
    said = " ".join(run("--help").output.split())
    assert "pleach overlay plan --from lake/ --costs costs.toml --degree-max 4 > plan.json" in said
    assert "--steps-max" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give either --to TREE or --from LAKE"),
        (("--to", "a-b", "--from", "lake"), "give either --to TREE or --from LAKE"),
        (("--from", "lake", "--protocol", "magic"), "unknown protocol 'magic'"),
        (("--from", "lake", "--tree", "a-b", "--via", "127.0.0.1:1"), "give one of them"),
        (("--from", "lake", "--tree", "a-b,a-east-1"), "write the links into a file"),
        (("--from", "lake", "--costs", "nowhere.toml"), "nowhere.toml cannot be read"),
        (("--to", "a-b"), "missing --via HOST:PORT"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, reason):
    said = run(*arguments)
    assert isinstance(said.exception, InvalidInputError)
    assert reason in str(said.exception)


def test_a_price_list_is_read_before_spark_is_started(tmp_path):
    file = tmp_path / "costs.toml"
    file.write_text("link = -3.0")
    said = run("--from", "lake", "--costs", str(file))
    assert isinstance(said.exception, PriceError)


def test_limits_are_kept():
    assert run("--from", "lake", "--degree-max", "1").exit_code == 2
    assert run("--from", "lake", "--starts", "0").exit_code == 2


@pytest.fixture
def found():
    """a and c talk to each other over b, which does not care."""
    job = pytest.importorskip("pleach.spark.planner.job")
    starts = pytest.importorskip("pleach.spark.planner.job")
    tree = Topology.of([("a", "b"), ("b", "c")])
    problem = Problem((Flow("a", frozenset({"c"}), 10.0), Flow("b", frozenset({"c"}))), Prices().costs("abc"), 2)
    task = starts.SearchTask(problem, tree, 1)
    return job.concluded(task, [starts.searched(task, number) for number in range(4)], PlannerOptions())


def test_people_see_what_is_saved_and_the_plan_goes_to_stdout(found, capsys):
    _show(found, found.order.plan("auto", Circumstances()), as_json=False)
    said = capsys.readouterr()
    assert decode_plan(said.out.encode()).result == Topology.of([("a", "c"), ("b", "c")])
    text = " ".join(said.err.split())
    assert "a–b a–c 10.0 47.6% 11.0" in text
    assert "11 events cost 21.0 now and 11.0 then: 47.6% less; that is 1.00 of what they would cost" in text


def test_programs_get_one_object(found, capsys):
    _show(found, found.order.plan("auto", Circumstances()), as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    told = msgspec.json.decode(line)
    assert (told["cost_now"], told["cost_then"], told["saving"], told["yardstick"]) == (21.0, 11.0, 10.0, 11.0)
    assert told["exchanges"] == [{"remove": ["a", "b"], "add": ["a", "c"], "saving": 10.0, "cost_then": 11.0}]
    assert [each["start"] for each in told["starts"]] == ["current", "settling", "mst", "mit"]
    assert decode_plan(msgspec.json.encode(told["plan"])).steps
