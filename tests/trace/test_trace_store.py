"""Traces on disk: what is written is read back; what others write is read or refused with file and column."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleach.errors import MissingPartError, TraceError
from pleach.lake import code_version, open_run
from pleach.trace import Record, judge, read_traces, write_trace
from pleach.trace.parquet import COLUMNS
from pleach.trace.store import traces_in
from support.trace.tiny_network import clean_story
from support.trace.written_traces import script

SMALL = """
    1 c subscribe s1 | price > 50
    2 c subscribe_ack s1
    3 p publish p/0/1 | {"on":true,"price":51,"raw":{"$bytes":"AP8="},"topic":"t1"}
    4 p publish_ack p/0/1
    5 c deliver p/0/1 | {"on":true,"price":51,"raw":{"$bytes":"AP8="},"topic":"t1"}
    6 - drain
"""


def table(records: list[Record], **replaced: pa.Array) -> pa.Table:
    columns = {name: pa.array([getattr(record, name) for record in records]) for name in COLUMNS}
    return pa.table({**columns, **replaced})


def only_run(path) -> list[Record]:
    ((_, records),) = read_traces(path)
    return records


def test_written_traces_are_read_back(tmp_path):
    records = clean_story(1).records
    path = write_trace(records, tmp_path / "new" / "lake", "run1")
    assert path == tmp_path / "new" / "lake" / "traces" / "run=run1" / "part-00000.parquet"
    for place in (path, path.parent, path.parent.parent, tmp_path / "new" / "lake", tmp_path):
        assert list(read_traces(place)) == [("run1", records)]
    assert [file.name for file in path.parent.glob("[!_]*")] == ["part-00000.parquet"]


def test_schema_is_the_declared_one(tmp_path):
    schema = pq.read_schema(write_trace(script(SMALL), tmp_path, "r"))
    assert {field.name: str(field.type) for field in schema} == COLUMNS
    assert list(schema.names) == list(COLUMNS)


def test_equal_records_give_equal_bytes(tmp_path):
    first = write_trace(clean_story(1).records, tmp_path / "a", "run1").read_bytes()
    second = write_trace(clean_story(1).records, tmp_path / "b", "run1").read_bytes()
    assert first == second


def test_an_empty_run_can_be_written(tmp_path):
    write_trace([], tmp_path, "none")
    with pytest.raises(TraceError, match="no records"):
        list(read_traces(tmp_path))


@pytest.mark.parametrize("run", ["a/b", ".hidden", "_temporary", "../up", "50%", "Größe 7", "x=1"])
def test_any_text_can_name_a_run(tmp_path, run: str):
    path = write_trace(script(SMALL, run), tmp_path / "lake", run)
    assert path.parent.parent == tmp_path / "lake" / "traces"
    assert list(read_traces(tmp_path)) == [(run, script(SMALL, run))]


def test_a_run_needs_a_name(tmp_path):
    with pytest.raises(TraceError, match="needs a name"):
        write_trace([], tmp_path, "")


def test_a_run_written_again_replaces_the_older_one(tmp_path):
    write_trace(clean_story(1).records, tmp_path, "run1")
    shorter = clean_story(1).records[:50]
    path = write_trace(shorter, tmp_path, "run1")
    assert only_run(tmp_path) == shorter
    assert list(path.parent.glob("*.parquet")) == [path]


def test_the_manifest_says_where_a_run_comes_from(tmp_path):
    write_trace(script(SMALL), tmp_path, "r", about={"scenario": "small", "seed": 7})
    (manifest,) = traces_in(tmp_path).runs()
    assert manifest.about == {"scenario": "small", "seed": 7, "code": code_version()}
    assert manifest.rows == 6


def test_results_in_the_same_lake_are_no_traces(tmp_path):
    write_trace(script(SMALL), tmp_path, "r")
    folder = tmp_path / "results" / "run=other"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), folder / "0.parquet")
    assert only_run(tmp_path) == script(SMALL)


def test_a_run_that_is_half_written_is_not_read(tmp_path):
    write_trace(script(SMALL), tmp_path, "r")
    with open_run(traces_in(tmp_path), "half", {}) as writer:
        writer.append(table(script(SMALL, "half")))
    assert only_run(tmp_path) == script(SMALL)
    with pytest.raises(TraceError, match=r"no \.parquet files that belong to a complete run"):
        list(read_traces(tmp_path / "traces" / "run=half"))


def test_records_of_another_run_are_refused(tmp_path):
    with pytest.raises(TraceError, match="'r' among those of run 'x'"):
        write_trace(script(SMALL), tmp_path, "x")


def test_without_pyarrow_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPartError, match=r"pip install 'pleach\[trace\]'"):
        write_trace(script(SMALL), tmp_path, "r")
    with pytest.raises(MissingPartError, match="pip install"):
        list(read_traces(write_nothing(tmp_path)))


def write_nothing(folder):
    (folder / "r.parquet").write_bytes(b"")
    return folder


def test_runs_in_one_file_and_over_several(tmp_path):
    """One file with two runs, two more with a part of each and a third run."""
    a, b, c = script(SMALL, "a"), script(SMALL, "b"), script(SMALL, "c")
    pq.write_table(table([*b[3:], *a[:2]]), tmp_path / "1.parquet")
    (tmp_path / "deep").mkdir()
    pq.write_table(table([*a[2:]]), tmp_path / "deep" / "2.parquet")
    pq.write_table(table([*c, *b[:3]]), tmp_path / "deep" / "3.parquet")
    pq.write_table(table(script(SMALL, "d")), tmp_path / "4.parquet")
    assert list(read_traces(tmp_path)) == [("b", b), ("a", a), ("c", c), ("d", script(SMALL, "d"))]


def test_one_file_per_node_is_put_in_total_order(tmp_path):
    records = script(SMALL)
    for node in ("c", "p", ""):
        pq.write_table(table([one for one in records if one.node == node]), tmp_path / f"node-{node}.parquet")
    assert only_run(tmp_path) == records


def test_hidden_files_are_left_alone(tmp_path):
    write_trace(script(SMALL), tmp_path, "r")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".unfinished.parquet").write_bytes(b"")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "x.parquet").write_bytes(b"")
    assert only_run(tmp_path) == script(SMALL)


def test_run_named_by_its_folder(tmp_path):
    folder = tmp_path / "run=a%20b" / "part=0"
    folder.mkdir(parents=True)
    pq.write_table(table(script(SMALL)).drop_columns("run"), folder / "0.parquet")
    assert list(read_traces(tmp_path)) == [("a b", script(SMALL, "a b"))]


class TestLiberal:
    """What others may write, with the same meaning."""

    def same(self, tmp_path, changed: pa.Table) -> None:
        pq.write_table(changed, tmp_path / "x.parquet")
        assert only_run(tmp_path) == script(SMALL)

    def test_optional_columns_missing(self, tmp_path):
        self.same(tmp_path, table(script(SMALL)).drop_columns(["peer", "message", "bytes", "detail"]))

    def test_columns_unknown_or_in_another_order(self, tmp_path):
        given = table(script(SMALL))
        self.same(tmp_path, given.select(given.column_names[::-1]).append_column("more", pa.array([1] * 6)))

    def test_other_widths(self, tmp_path):
        at, n = pa.array([1, 2, 3, 4, 5, 6], pa.int32()), pa.array([1, 2, 1, 2, 3, 1], pa.int32())
        self.same(tmp_path, table(script(SMALL), at=at, n=n, bytes=pa.array([None] * 6)))
        self.same(tmp_path, table(script(SMALL), at=at.cast(pa.float32()), n=n.cast(pa.float64())))

    def test_other_strings(self, tmp_path):
        given = table(script(SMALL))
        kinds = given["kind"].combine_chunks()
        self.same(
            tmp_path, table(script(SMALL), kind=kinds.dictionary_encode(), node=given["node"].cast(pa.large_string()))
        )

    def test_nulls_for_what_does_not_apply(self, tmp_path):
        columns = {}
        for name in ("event", "client", "node", "subscription", "filter", "attributes", "detail"):
            columns[name] = pa.array([getattr(record, name) or None for record in script(SMALL)])
        self.same(tmp_path, table(script(SMALL), **columns))

    def test_attributes_as_struct(self, tmp_path):
        value = {"on": True, "price": 51, "raw": b"\x00\xff", "topic": "t1", "other": None}
        self.same(tmp_path, table(script(SMALL), attributes=pa.array([None, None, value, None, value, None])))

    def test_attributes_as_map_of_texts(self, tmp_path):
        value = [("on", "true"), ("price", "51"), ("raw", '{"$bytes":"AP8="}'), ("topic", "t1"), ("gone", None)]
        rows = pa.array([None, [], value, None, value, None], pa.map_(pa.string(), pa.string()))
        self.same(tmp_path, table(script(SMALL), attributes=rows))

    def test_attributes_as_map_of_numbers(self, tmp_path):
        rows = pa.array([None, None, [("price", 51.0)], None, None, None], pa.map_(pa.string(), pa.float64()))
        pq.write_table(table(script(SMALL), attributes=rows), tmp_path / "x.parquet")
        records = only_run(tmp_path)
        assert records[2].attributes == '{"price":51.0}'
        assert judge(records).clean


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("t1", '"t1"'),
        ("007", '"007"'),
        ("null", '"null"'),
        ("[1]", '"[1]"'),
        ('"5"', '"5"'),
        ("-2.5", "-2.5"),
        ("", '""'),
    ],
)
def test_texts_in_maps(tmp_path, text: str, value: str):
    rows = pa.array([None, None, [("x", text)], None, None, None], pa.map_(pa.string(), pa.string()))
    pq.write_table(table(script(SMALL), attributes=rows), tmp_path / "x.parquet")
    assert only_run(tmp_path)[2].attributes == f'{{"x":{value}}}'


class TestRefused:
    """What cannot be judged soundly names the file and the column."""

    def refused(self, tmp_path, changed: pa.Table) -> str:
        pq.write_table(changed, tmp_path / "x.parquet")
        with pytest.raises(TraceError) as caught:
            list(read_traces(tmp_path))
        assert "x.parquet" in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("peer", "message", "bytes", "detail")])
    def test_missing_column(self, tmp_path, name: str):
        assert f"column {name!r} is missing" in self.refused(tmp_path, table(script(SMALL)).drop_columns(name))

    @pytest.mark.parametrize("name", COLUMNS)
    def test_mistyped_column(self, tmp_path, name: str):
        wrong = ["x"] * 6 if COLUMNS[name] != "string" else [1] * 6
        assert f"column {name!r} is of type" in self.refused(tmp_path, table(script(SMALL), **{name: pa.array(wrong)}))

    @pytest.mark.parametrize("name", ["run", "at", "n", "kind"])
    def test_nulls_where_every_record_needs_a_value(self, tmp_path, name: str):
        values = [getattr(record, name) for record in script(SMALL)]
        holed = pa.array([None, *values[1:]])
        assert f"column {name!r} has 1 nulls" in self.refused(tmp_path, table(script(SMALL), **{name: holed}))

    def test_fractions_in_n(self, tmp_path):
        assert "column 'n'" in self.refused(tmp_path, table(script(SMALL), n=pa.array([1.5] * 6)))

    def test_attributes_of_strange_types(self, tmp_path):
        rows = pa.array([{"x": [1, 2]}] * 6)
        assert "column 'attributes'" in self.refused(tmp_path, table(script(SMALL), attributes=rows))

    def test_not_parquet(self, tmp_path):
        (tmp_path / "x.parquet").write_text("run,at,node")
        with pytest.raises(TraceError, match=r"x\.parquet: cannot be read as Parquet"):
            list(read_traces(tmp_path))

    def test_cut_short(self, tmp_path):
        pq.write_table(table(script(SMALL)), tmp_path / "r.parquet")
        (tmp_path / "r.parquet").write_bytes((tmp_path / "r.parquet").read_bytes()[:-20])
        with pytest.raises(TraceError, match=r"r\.parquet: cannot be read"):
            list(read_traces(tmp_path))

    def test_nothing_there(self, tmp_path):
        with pytest.raises(TraceError, match="no such file"):
            list(read_traces(tmp_path / "absent"))
        with pytest.raises(TraceError, match=r"holds no \.parquet files"):
            list(read_traces(tmp_path))


def test_damaged_data_are_refused(tmp_path):
    """The footer is whole, the pages are not."""
    path = write_trace(clean_story(1).records, tmp_path, "run1")
    whole = bytearray(path.read_bytes())
    whole[4:400] = bytes(396)
    path.write_bytes(bytes(whole))
    with pytest.raises(TraceError, match=r"run=run1/part-00000\.parquet"):
        list(read_traces(tmp_path))
