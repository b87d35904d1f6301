"""`pleach lab` as a user meets it: what needs no Spark in processes, the rest on the session of the tests."""

import json

import pytest
from test_commands import pleach
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import ExperimentError, LakeError
from pleach.lab.registry import EXPERIMENTS

CASE = '{"share": 1.0, "routing": "simple", "brokers": 8}'


def lab(*arguments):
    """In this process; what is raised on purpose is raised here."""
    return CliRunner().invoke(app, ["lab", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)


def test_list_names_every_experiment_with_its_figures_and_sizes():
    done = pleach("lab", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["experiment"] for each in listed] == list(EXPERIMENTS)
    hops = next(each for each in listed if each["experiment"] == "hops")
    assert hops["figures"] == ["hops"]
    assert hops["runs"]["quick"] == 30


def test_replay_does_one_run_whatever_the_order_of_the_case_s_parameters():
    done = pleach("lab", "replay", "hops", "--case", CASE, "--seed", 3, "--json")
    assert done.returncode == 0, done.stderr
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    assert [sample["metric"] for sample in samples] == ["hops per event", "subscription messages"]
    shown = pleach("lab", "replay", "hops", "--case", CASE, "--seed", 3)
    assert "subscription messages" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", "hopps", "--case", CASE, "--seed", 1), "there is no experiment 'hopps'; there are: "),
        (("replay", "hops", "--case", "{brokers", "--seed", 1), "is not a JSON object"),
        (
            ("replay", "hops", "--case", '{"brokers": 7}', "--seed", 1),
            'hops has no case {"brokers":7}; there are such as',
        ),
        (("run", "hopps"), "there is no experiment 'hopps'"),
        (("report", "--lake", "nowhere"), "nowhere: campaign 'main' has no results; `pleach lab run` makes some"),
        (("judge", "--out", "nowhere"), "nowhere: there is no report"),
        (("run", "hops", "--campaign", "a/b"), "--campaign 'a/b' is not a name"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said):
    done = pleach("lab", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_all_experiments_at_their_smallest_with_the_report(spark, tmp_path):
    lake, out = tmp_path / "lake", tmp_path / "out"
    places = ("--size", "quick", "--lake", lake, "--master", "local[2]", "--json")
    ran = lab("run", *places)
    ended = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["experiment"] for each in ended] == list(EXPERIMENTS)
    assert not [each["failures"] for each in ended if each["failures"]]
    assert all(each["run"] == each["tasks"] for each in ended)

    reported = lab("report", *places, "--out", out)
    assert reported.exit_code == 0
    expected = {shown.name for experiment in EXPERIMENTS.values() for shown in experiment.shown}
    assert {json.loads(line)["figure"] for line in reported.stdout.splitlines()} == expected
    index = json.loads((out / "index.json").read_bytes())
    assert all(entry["measured"] and not entry["note"] for entry in index)
    assert all((out / file).stat().st_size for entry in index for file in entry["files"])

    again = lab("run", "hops", *places)
    assert json.loads(again.stdout)["run"] == 0


@pytest.mark.spark
def test_a_report_of_another_size_says_what_to_run(spark, tmp_path):
    lab("run", "hops", "--size", "quick", "--lake", tmp_path, "--master", "local[2]", "--json")
    with pytest.raises(LakeError, match="pleach lab run hops --size usual"):
        lab("report", "--lake", tmp_path, "--out", tmp_path / "out", "--master", "local[2]")
    (part, *_) = sorted(tmp_path.rglob("*.parquet"))
    part.write_bytes(b"no Parquet")
    with pytest.raises(LakeError, match="part-00000"):
        lab("run", "hops", "--size", "quick", "--lake", tmp_path, "--master", "local[2]")


def test_results_of_other_code_are_refused_before_a_session_is_made(tmp_path):
    folder = tmp_path / "results" / "run=main%2Fhops"
    folder.mkdir(parents=True)
    manifest = {"table": "results", "run": "main/hops", "columns": {}, "about": {"code": "0.0.1+other"}}
    (folder / "_manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ExperimentError, match=r"measured by code 0\.0\.1"):
        lab("run", "hops", "--lake", tmp_path, "--master", "no such master")
