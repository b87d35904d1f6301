"""The audit on Spark at its edges: input that cannot be read, orders of files, explanations, the command."""

import json
import sys

import pyarrow.parquet as pq
import pytest
from test_audit_agrees import table
from typer.testing import CliRunner

from pleach.bench.long_traces import PER_ERROR, write_long_traces
from pleach.cli.main import app
from pleach.errors import LakeError, MissingPartError, TraceError
from pleach.spark.audit.inspection import Chunk, look_at
from pleach.spark.audit.job import audit
from pleach.spark.audit.verdicts import explain_on_spark
from pleach.trace import Rule, explain, judge, read_traces, write_trace
from support.trace.tiny_network import clean_story
from support.trace.written_traces import SUBSCRIBED, T1, script

LOSSY = f"""{SUBSCRIBED}
    3 p publish p/0/1 | {T1}
    4 p publish_ack p/0/1
    4 p publish p/0/2 | {T1}
    5 c deliver p/0/2
    6 - drain"""


def orderly(records, folder):
    """Whether a file with these records counts as one that lies in total order."""
    path = folder / "look.parquet"
    pq.write_table(table(records), path)
    return all(extent.orderly for extent in look_at(Chunk(str(path), 0, (0,), plain=True)))


class TestInspection:
    def test_a_run_as_it_was_recorded_is_orderly(self, tmp_path):
        assert orderly(clean_story(3).records, tmp_path)

    def test_an_event_delivered_before_its_publication_in_one_instant_is_not(self, tmp_path):
        lines = [f"3 p publish p/0/1 | {T1}", "3 c deliver p/0/1"]
        assert orderly(script("\n".join(lines)), tmp_path)
        assert not orderly(script("\n".join(reversed(lines))), tmp_path)
        other = ["3 c deliver p/0/1", f"3 p publish p/0/2 | {T1}"]
        assert orderly(script("\n".join(other)), tmp_path)

    def test_runs_that_follow_each_other_are_and_mixed_ones_are_not(self, tmp_path):
        one, other = script("1 c deliver p/0/1\n 2 - drain", "a"), script("1 c deliver p/0/1\n 2 - drain", "b")
        assert orderly([*one, *other], tmp_path)
        assert not orderly([one[0], *other, one[1]], tmp_path)

    def test_numbers_that_fall_are_not(self, tmp_path):
        records = script("1 c deliver p/0/1\n 1 c deliver p/0/2")
        assert not orderly(records[::-1], tmp_path)


@pytest.mark.spark
class TestInput:
    def test_explanations_and_promises_are_those_of_the_reference(self, spark, tmp_path):
        records = script(LOSSY)
        write_trace(records, tmp_path, "r")
        done = audit(spark, tmp_path, "fifo")
        assert done.verdicts == [judge(records, "fifo")]
        assert explain_on_spark(done.records, done.verdicts[0], 3) == explain(judge(records, "fifo"), records, 3)

    def test_nothing_to_judge(self, spark, tmp_path):
        with pytest.raises(TraceError, match="no such file or folder"):
            audit(spark, tmp_path / "nowhere")
        write_trace([], tmp_path, "empty")
        with pytest.raises(TraceError, match="there are no records in it"):
            audit(spark, tmp_path)

    def test_a_run_whose_file_is_gone(self, spark, tmp_path):
        write_trace(script(LOSSY), tmp_path, "r").unlink()
        with pytest.raises(LakeError, match="is missing, and the manifest lists it"):
            audit(spark, tmp_path)

    def test_a_file_that_is_no_parquet(self, spark, tmp_path):
        (tmp_path / "x.parquet").write_text("run,at,node")
        with pytest.raises(TraceError, match=r"x\.parquet: cannot be read as Parquet"):
            audit(spark, tmp_path)

    def test_a_file_of_another_schema(self, spark, tmp_path):
        pq.write_table(table(script(LOSSY)).drop_columns("event"), tmp_path / "x.parquet")
        with pytest.raises(TraceError, match=r"x\.parquet: column 'event' is missing"):
            audit(spark, tmp_path)

    @pytest.mark.parametrize("column", ["event", "attributes"])
    def test_a_damaged_page(self, spark, tmp_path, column):
        """Of a column that is looked at first, and of one that only Spark reads."""
        path = write_trace(clean_story(1).records, tmp_path, "run1")
        group = pq.read_metadata(path).row_group(0)
        chunk = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column)
        content = bytearray(path.read_bytes())
        content[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size // 2] ^= 0xFF
        path.write_bytes(bytes(content))
        with pytest.raises(TraceError, match=r"part-00000\.parquet"):
            audit(spark, tmp_path)


@pytest.mark.spark
def test_long_traces_are_as_planned(spark, tmp_path):
    write_long_traces(spark, tmp_path, deliveries=60_000, runs=1, errors=2)
    ((_, records),) = read_traces(tmp_path)
    verdict = judge(records)
    assert verdict.usable
    assert {rule: verdict.count(rule) for rule in Rule} == {rule: 2 * per for rule, per in PER_ERROR.items()}


@pytest.mark.spark
def test_the_command_judges_on_spark(spark, tmp_path):
    write_trace(script(LOSSY), tmp_path, "r")
    said = CliRunner().invoke(app, ["audit", str(tmp_path), "--engine", "spark", "--master", "local[2]", "--json"])
    assert said.exit_code == 1, said.output
    assert json.loads(said.stdout) == judge(script(LOSSY)).to_dict()


def test_auto_takes_the_reference_for_small_traces(tmp_path, monkeypatch):
    write_trace(script(LOSSY), tmp_path, "r")
    monkeypatch.setitem(sys.modules, "pyspark", None)  # whoever wants it now gets an ImportError
    said = CliRunner().invoke(app, ["audit", str(tmp_path), "--json"])
    assert json.loads(said.stdout) == judge(script(LOSSY)).to_dict()
    refused = CliRunner().invoke(app, ["audit", str(tmp_path), "--engine", "spark"])
    assert isinstance(refused.exception, MissingPartError)
