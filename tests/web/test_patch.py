"""Patches between pictures: whoever has the old one and the patch has the new one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.web.snapshot import Broker, Kind, Link, Snapshot, SourceInfo, difference, link_key, merged, plain

scalars = st.one_of(
    st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 2), max_size=2)
)
names = st.sampled_from(["a", "b", "c", "__proto__", ""])
tables = st.recursive(
    st.dictionaries(names, scalars, max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(scalars, inner), max_size=4),
    max_leaves=12,
)


@given(tables, tables)
def test_old_and_patch_give_new(old, new):
    assert merged(old, difference(old, new)) == new


@given(tables)
def test_nothing_changed_is_an_empty_patch(table):
    assert difference(table, table) == {}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_browsers_merge_is_ours():
    """page/merge.js on the cases that are easy to get wrong."""
    merge = Path(__file__).parents[2] / "src/pleach/web/page/merge.js"
    cases = [
        ({"a": {"b": 1}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {"a": [1]}),
        ({"a": [1, 2]}, {"a": {"b": {"c": 1}}}),
        ({}, {"__proto__": {"x": 1}}),
        ({"__proto__": {"x": 1, "y": 2}}, {"__proto__": {"x": None}}),
        ({"a": 1}, {}),
    ]
    script = (
        f"import {{ merge, table }} from '{merge.as_uri()}';"
        f"const cases = JSON.parse({json.dumps(json.dumps(cases))});"
        "console.log(JSON.stringify(cases.map(([old, patch]) => merge(merge(table(), old), patch))));"
        "if (Object.keys(Object.prototype).length) process.exit(1);"
    )
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, check=True)
    assert json.loads(done.stdout) == [merged(old, patch) for old, patch in cases]


def test_what_is_not_known_is_not_sent():
    link = {link_key("b", "a"): Link("a", "b")}
    shown = plain(Snapshot(SourceInfo(Kind.LIVE, "t"), 1.0, brokers={"a": Broker()}, links=link))
    assert list(shown["links"]) == ["a\nb"]
    assert "round_trip" not in shown["links"]["a\nb"]
