"""The audit on Spark at its edges: input that cannot be read, orders of files, explanations, the command."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from scripts import SUBSCRIBED, T1, script
from test_audit_agrees import table
from tiny_network import clean_story

from pleach.bench.long_traces import PER_ERROR, write_long_traces
from pleach.errors import LakeError, TraceError
from pleach.spark.audit.around import explain_on_spark
from pleach.spark.audit.inspection import Chunk, look_at
from pleach.spark.audit.job import audit
from pleach.trace import Outcome, Rule, explain, judge, read_traces, write_trace

ROOT = Path(__file__).parents[2]
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

    def test_numbers_that_fall_are_not(self, tmp_path):
        records = script("1 c deliver p/0/1\n 1 c deliver p/0/2")
        assert not orderly(records[::-1], tmp_path)


@pytest.mark.spark
class TestInput:
    def test_long_traces_are_judged_as_planted_and_as_the_reference_does(self, spark, tmp_path):
        write_long_traces(spark, tmp_path, deliveries=60_000, runs=1, errors=2)
        (verdict,) = audit(spark, tmp_path).verdicts
        assert {rule: verdict.count(rule) for rule in Rule} == {rule: 2 * per for rule, per in PER_ERROR.items()}
        ((_, records),) = read_traces(tmp_path)
        assert verdict == judge(records)

    def test_explanations_are_those_of_the_reference(self, spark, tmp_path):
        records = script(LOSSY)
        write_trace(records, tmp_path, "r")
        done = audit(spark, tmp_path)
        (verdict,) = done.verdicts
        assert explain_on_spark(done.records, verdict, 3) == explain(judge(records), records, 3)

    def test_a_promise_given_as_argument_counts(self, spark, tmp_path):
        text = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 3 p publish p/0/2 | {T1}\n 4 c deliver p/0/2\n"
        write_trace(script(f"{text} 5 c deliver p/0/1\n 6 - drain"), tmp_path, "r")
        (verdict,) = audit(spark, tmp_path, "none").verdicts
        assert verdict.clean
        assert [one.rule for one in verdict.tolerated] == [Rule.FIFO]

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
        content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
        path.write_bytes(bytes(content))
        with pytest.raises(TraceError, match=r"part-00000\.parquet"):
            audit(spark, tmp_path)


@pytest.mark.spark
def test_the_command_judges_on_spark(tmp_path):
    write_trace(script(LOSSY), tmp_path, "r")
    arguments = ["audit", str(tmp_path), "--engine", "spark", "--master", "local[1]", "--json"]
    said = subprocess.run(
        [sys.executable, "-c", "from pleach.cli.main import run; run()", *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        cwd=ROOT,
    )
    assert said.returncode == 1, said.stderr
    assert said.stderr == ""
    verdict = json.loads(said.stdout)
    assert verdict == judge(script(LOSSY)).to_dict()
    assert verdict["outcome"] == Outcome.VIOLATED
