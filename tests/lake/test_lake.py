"""The lake: what is committed is read, nothing else is, and what is wrong is named with a remedy."""

import os
import signal
import subprocess
import sys
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleach.errors import LakeError
from pleach.lake import Table, WriteMode, code_version, open_run
from pleach.lake.manifest import FOLDER_PREFIX, load_manifest

COLUMNS = {"seed": "int64", "metric": "string", "values": "list<double>"}
FROM = {"scenario": "small", "code": "1"}


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path / "lake", "results", COLUMNS)


def rows(*seeds):
    values = pa.array([[1.0, 2.0]] * len(seeds), pa.list_(pa.float64()))
    return pa.table({"seed": pa.array(seeds, pa.int64()), "metric": ["m"] * len(seeds), "values": values})


def written(table, run="a", *seeds):
    with open_run(table, run, FROM) as writer:
        writer.append(rows(*(seeds or (1, 2))))
        writer.finish()
    return table.folder / f"run={run}"


def seeds_in(table, **options):
    return sorted(seed for file in table.files(**options) for seed in pq.read_table(file)["seed"].to_pylist())


class TestWriting:
    def test_a_run_is_read_once_it_is_finished(self, table):
        with open_run(table, "a", FROM) as writer:
            writer.append(rows(1, 2))
            assert table.files() == []
            writer.append(rows(3))
            writer.finish()
        assert seeds_in(table) == [1, 2, 3]
        (manifest,) = table.runs()
        assert (manifest.rows, len(manifest.parts), manifest.about) == (3, 2, FROM)

    def test_what_is_committed_of_an_unfinished_run_can_be_asked_for(self, table):
        with open_run(table, "a", FROM) as writer:
            writer.append(rows(1))
        assert seeds_in(table) == []
        assert seeds_in(table, unfinished=True) == [1]

    def test_a_file_that_the_manifest_does_not_list_is_not_read(self, table):
        folder = written(table)
        pq.write_table(rows(9), folder / "part-00001.parquet")
        assert seeds_in(table) == [1, 2]

    def test_appending_goes_on_where_it_was(self, table):
        written(table)
        with open_run(table, "a", FROM, WriteMode.APPEND) as writer:
            writer.append(rows(3))
            assert seeds_in(table) == []
            writer.finish()
        assert seeds_in(table) == [1, 2, 3]

    def test_a_part_left_over_by_a_writer_that_died_is_written_over(self, table):
        with open_run(table, "a", FROM) as writer:
            writer.append(rows(1))
        pq.write_table(rows(9), table.folder / "run=a" / "part-00001.parquet")
        with open_run(table, "a", FROM, WriteMode.APPEND) as writer:
            writer.append(rows(2))
            writer.finish()
        assert seeds_in(table) == [1, 2]

    def test_replacing_keeps_the_old_run_readable_until_the_new_one_is_finished(self, table):
        folder = written(table)
        with open_run(table, "a", {"code": "2"}, WriteMode.REPLACE) as writer:
            writer.append(rows(7))
            assert seeds_in(table) == [1, 2]
            writer.finish()
        assert seeds_in(table) == [7]
        assert len(list(folder.glob("*.parquet"))) == 1

    def test_a_replacement_that_is_given_up_changes_nothing(self, table):
        written(table)
        with open_run(table, "a", {"code": "2"}, WriteMode.REPLACE) as writer:
            writer.append(rows(7))
        assert seeds_in(table) == [1, 2]

    def test_files_of_others_are_taken_over(self, table, tmp_path):
        for number in (1, 2):
            pq.write_table(rows(number), tmp_path / f"{number}.parquet")
        with open_run(table, "a", FROM) as writer:
            writer.adopt([tmp_path / "1.parquet", tmp_path / "2.parquet"])
            writer.finish()
        assert seeds_in(table) == [1, 2]
        assert not list(tmp_path.glob("*.parquet"))

    def test_files_of_another_schema_are_not(self, table, tmp_path):
        pq.write_table(rows(1), tmp_path / "1.parquet")
        pq.write_table(pa.table({"x": [1]}), tmp_path / "2.parquet")
        with open_run(table, "a", FROM) as writer:
            with pytest.raises(LakeError, match="nothing was taken over"):
                writer.adopt([tmp_path / "1.parquet", tmp_path / "2.parquet"])
            assert writer.manifest.parts == ()

    def test_plain_columns(self, table):
        with open_run(table, "a", FROM) as writer:
            writer.append_columns({"seed": [4], "metric": ["m"], "values": [[0.5]]})
            writer.finish()
        assert seeds_in(table) == [4]

    def test_columns_in_another_order_are_put_in_ours(self, table):
        with open_run(table, "a", FROM) as writer:
            path = writer.append(rows(1).select(["metric", "values", "seed"]))
        assert pq.read_schema(path).names == list(COLUMNS)

    def test_equal_rows_give_equal_bytes(self, table):
        first, second = (written(table, run) / "part-00000.parquet" for run in "ab")
        assert first.read_bytes() == second.read_bytes()

    @pytest.mark.parametrize("run", ["a/b", "..", "ü 7%", "x=1"])
    def test_any_text_names_a_run(self, table, run):
        with open_run(table, run, FROM) as writer:
            writer.finish()
        (folder,) = table.folder.iterdir()
        assert unquote(folder.name.removeprefix(FOLDER_PREFIX)) == run
        assert [manifest.run for manifest in table.runs()] == [run]


class TestRefused:
    def test_a_new_run_that_is_there(self, table):
        written(table)
        with pytest.raises(LakeError, match="run=a: is there already"), open_run(table, "a", FROM):
            pass

    def test_a_new_run_that_was_begun(self, table):
        with open_run(table, "a", FROM):
            pass
        with pytest.raises(LakeError, match="begun and not finished; append"), open_run(table, "a", FROM):
            pass

    def test_a_second_writer(self, table):
        with (
            open_run(table, "a", FROM),
            pytest.raises(LakeError, match="another process is writing this run"),
            open_run(table, "a", FROM, WriteMode.APPEND),
        ):
            pass

    def test_rows_of_another_source(self, table):
        written(table)
        with (
            pytest.raises(LakeError, match="comes from code '1', not '2'; the two must not be mixed"),
            open_run(table, "a", {**FROM, "code": "2"}, WriteMode.APPEND),
        ):
            pass

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda t: t.drop_columns("metric"), "'metric' is missing"),
            (lambda t: t.set_column(0, "seed", pa.array([1], pa.int32())), "'seed' is int32"),
            (lambda t: t.append_column("more", pa.array([1])), "'more' is not declared"),
        ],
    )
    def test_rows_of_another_schema(self, table, change, reason):
        with open_run(table, "a", FROM) as writer:
            with pytest.raises(LakeError, match=reason):
                writer.append(change(rows(1)))
            assert writer.manifest.parts == ()

    def test_a_run_without_a_name(self, table):
        with pytest.raises(LakeError, match="needs a name"), open_run(table, "", FROM):
            pass

    def test_a_run_that_is_not_there(self, table):
        written(table, "a")
        with pytest.raises(LakeError, match="has no finished run 'b'; it has 'a'"):
            table.files(["b"])


class TestDamage:
    """Each kind names the file and says what helps."""

    def refused(self, table, reason):
        with pytest.raises(LakeError, match=reason) as caught:
            table.files()
        assert "run=a" in str(caught.value)
        assert "make the run anew, or leave it out by removing" in str(caught.value)

    def test_missing_file(self, table):
        (written(table) / "part-00000.parquet").unlink()
        self.refused(table, r"part-00000\.parquet: is missing")

    def test_cut_file(self, table):
        file = written(table) / "part-00000.parquet"
        file.write_bytes(file.read_bytes()[:-1])
        self.refused(table, r"part-00000\.parquet: has [\d,]+ bytes, the manifest says")

    def test_corrupt_footer(self, table):
        file = written(table) / "part-00000.parquet"
        file.write_bytes(bytes(file.stat().st_size))
        self.refused(table, "cannot be read as Parquet")

    def test_corrupt_page(self, table):
        """The checksum of the page finds a bit that has flipped."""
        file = written(table) / "part-00000.parquet"
        content = bytearray(file.read_bytes())
        content[40] ^= 1
        file.write_bytes(bytes(content))
        with pytest.raises(OSError, match=r"CRC|corrupt|checksum"):
            pq.ParquetFile(file, page_checksum_verification=True).read()

    def test_mixed_schema(self, table):
        """A file of other columns in the place of ours, of the same size."""
        folder = written(table)
        file = folder / "part-00000.parquet"
        pq.write_table(pa.table({"other": [1, 2]}), file)
        said = folder / "_manifest.json"
        old = str(load_manifest(folder).parts[0].bytes)
        said.write_text(said.read_text().replace(old, str(file.stat().st_size)))
        self.refused(table, "column 'seed' is missing")

    def test_a_run_of_an_older_schema(self, table):
        written(table)
        wider = Table(table.lake, table.name, {**COLUMNS, "unit": "string"})
        self.refused(wider, "column 'unit' is missing")

    def test_rows_do_not_add_up(self, table):
        said = written(table) / "_manifest.json"
        said.write_text(said.read_text().replace('"rows": 2', '"rows": 3'))
        self.refused(table, "has 2 rows, the manifest says 3")

    def test_no_manifest(self, table):
        (written(table) / "_manifest.json").write_text("{")
        self.refused(table, "is no manifest")

    def test_a_newer_format(self, table):
        said = written(table) / "_manifest.json"
        said.write_text(said.read_text().replace('"format": 1', '"format": 2'))
        with pytest.raises(LakeError, match="is of format 2, this version knows 1; update pleach"):
            table.files()


KILLED = """
import os, sys
import pyarrow as pa
from pathlib import Path
from pleach.lake import Table, open_run
table = Table(Path(sys.argv[1]), "results", {"seed": "int64"})
with open_run(table, "a", {}) as writer:
    for seed in range(10_000):
        writer.append(pa.table({"seed": [seed]}))
        print(seed, flush=True)
"""


def test_a_killed_writer_leaves_whole_parts_and_no_lock(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with child:
        said = [int(child.stdout.readline()) for _ in range(5)]
        os.kill(child.pid, signal.SIGKILL)
    table = Table(tmp_path, "results", {"seed": "int64"})
    assert table.files() == []
    found = seeds_in(table, unfinished=True)
    assert found[: len(said)] == said
    with open_run(table, "a", {}, WriteMode.APPEND) as writer:
        writer.append(pa.table({"seed": [-1]}))
        writer.finish()
    assert seeds_in(table) == [-1, *found]


def test_the_version_of_the_code_is_stable():
    assert code_version() == code_version.__wrapped__()
    assert "+" in code_version()
