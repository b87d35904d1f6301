"""Results of campaigns in the lake: what is kept, what is refused, what is wrong with a file."""

import pyarrow as pa
import pytest

from pleach.errors import ExperimentError, LakeError
from pleach.lake.arrow import arrow_type
from pleach.spark.results import COLUMNS, Results

OUTCOME = {name: kind for name, kind in COLUMNS.items() if name != "replay"}


def table(*rows):
    """Outcomes from (case, seed, error, {metric: value})."""
    plain = [
        {"case": c, "seed": s, "error": e, "seconds": 0.5, "metrics": list(m), "values": list(m.values())}
        for c, s, e, m in rows
    ]
    return pa.Table.from_pylist(plain, schema=pa.schema([(name, arrow_type(kind)) for name, kind in OUTCOME.items()]))


def kept(results, *rows, code="v1"):
    with results.opened(code) as append:
        append(table(*rows), [f"replay {case} {seed}" for case, seed, *_ in rows])


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path, "main", "toy")


def test_nothing_is_done_before_the_first_piece(results):
    assert results.done() == (frozenset(), frozenset())
    assert results.code == ""


def test_a_failure_counts_until_its_task_succeeds(results):
    kept(results, ("a", 0, "", {"m": 1.0}), ("a", 1, "ValueError", {}))
    assert results.done() == ({("a", 0)}, {("a", 1)})
    kept(results, ("a", 1, "", {"m": 2.0}))
    assert results.done() == ({("a", 0), ("a", 1)}, set())


def test_results_of_two_versions_are_not_mixed(results):
    kept(results, ("a", 0, "", {"m": 1.0}), code="v1")
    with pytest.raises(ExperimentError, match=r"measured by code v1, and this is v2.*--campaign.*--force"):
        kept(results, ("a", 1, "", {"m": 1.0}), code="v2")
    results.discard()
    kept(results, ("a", 1, "", {"m": 1.0}), code="v2")
    assert results.done().measured == {("a", 1)}


def test_campaigns_are_apart(results, tmp_path):
    kept(results, ("a", 0, "", {"m": 1.0}), code="v1")
    kept(Results(tmp_path, "other", "toy"), ("a", 1, "", {"m": 1.0}), code="v2")
    assert results.done().measured == {("a", 0)}


@pytest.mark.parametrize("campaign", ["", "a/b"])
def test_a_campaign_needs_a_name(tmp_path, campaign):
    with pytest.raises(ExperimentError, match="--campaign"):
        Results(tmp_path, campaign, "toy")


def test_one_writer_at_a_time(results):
    with results.opened("v1"), pytest.raises(LakeError, match="another process is writing"):
        kept(results, ("a", 0, "", {}))


def part(results):
    (path,) = results.folder.glob("*.parquet")
    return path


def test_a_piece_that_is_cut_is_named(results):
    kept(results, ("a", 0, "", {"m": 1.0}))
    part(results).write_bytes(part(results).read_bytes()[:-9])
    with pytest.raises(LakeError, match=r"part-00000\.parquet.*bytes.*remov"):
        results.done()


def test_a_flipped_bit_is_found(results):
    kept(results, *((f"case {n}", n, "", {"m": 1.0}) for n in range(200)))
    content = bytearray(part(results).read_bytes())
    content[60] ^= 0x10  # within the first column
    part(results).write_bytes(content)
    with pytest.raises(LakeError, match=r"part-00000.*cannot be read"):
        results.done()


def test_a_piece_that_was_not_committed_does_not_count(results):
    """As after a kill between writing a piece and listing it."""
    kept(results, ("a", 0, "", {"m": 1.0}))
    (results.folder / "part-00001.parquet").write_bytes(part(results).read_bytes())
    (results.folder / ".part-00002.parquet").write_bytes(b"PAR1")
    assert results.done().measured == {("a", 0)}


@pytest.mark.spark
def test_samples_and_statuses_as_rows(spark, results):
    kept(results, ("a", 0, "", {"m": 1.0, "n": 2.0}), ("a", 1, "ValueError: x", {}), ("a", 2, "KeyError", {}))
    kept(results, ("a", 1, "", {"m": 4.0}))
    assert sorted(results.samples(spark).collect()) == [
        ("toy", "a", 0, "m", 1.0),
        ("toy", "a", 0, "n", 2.0),
        ("toy", "a", 1, "m", 4.0),
    ]
    assert sorted(results.statuses(spark).collect()) == [
        ("toy", "a", 0, "ok", "", 0.5, "replay a 0"),
        ("toy", "a", 1, "ok", "", 0.5, "replay a 1"),
        ("toy", "a", 2, "failed", "KeyError", 0.5, "replay a 2"),
    ]


@pytest.mark.spark
def test_where_nothing_was_measured_the_command_is_named(spark, results):
    with pytest.raises(LakeError, match="pleach lab run toy"):
        results.samples(spark)
