"""The dashboard over HTTP: files, the stream, plans; and what is refused, and how."""

import asyncio
import re
from pathlib import Path

import pytest

from pleach.access.principals import Verb
from pleach.errors import DeniedError
from pleach.server.http.caller import Caller, Evidence, everybody
from pleach.web import stream
from pleach.web.simulated_source import SimulatedSource
from pleach.web.site import Dashboard, page_files
from pleach.web.snapshot import merged
from support.web.dashboard_requests import talk, watching

PAGE = Path(__file__).parents[2] / "src/pleach/web/page"
REFERENCES = re.compile(r"""(?:src|href|from|import)\s*[=(]?\s*["']([^"'#]+)["']""")


def run(test, source=None):
    async def main():
        async with talk(source or SimulatedSource(30, 1)) as there:
            return await test(there)

    return asyncio.run(main())


async def swap_of(there):
    """A swap that the tree of the simulated source allows."""
    tree = there.dashboard._source._tree
    a, b, c = next((a, b, c) for a in tree.brokers for b in tree.neighbours(a) for c in tree.neighbours(b) if c != a)
    return {"do": "swap", "a": a, "b": b, "c": c}


# Files -----------------------------------------------------------------------------------------------------------


def test_the_page_and_all_that_it_names_are_there():
    async def test(there):
        answer = await there.ask("GET", "/dashboard/")
        assert answer.code == 200
        assert there.token.encode() in answer.body
        for name in REFERENCES.findall(answer.body.decode()):
            assert (await there.ask("GET", f"/dashboard/{name}")).code == 200, name

    run(test)


def test_modules_name_only_what_is_there_and_nothing_from_elsewhere():
    for path in sorted(PAGE.iterdir()):
        for name in REFERENCES.findall(path.read_text()):
            assert (PAGE / name).is_file() or name == "http://www.w3.org/2000/svg", f"{path.name}: {name}"


def test_no_text_is_read_as_html():
    for path in sorted(PAGE.glob("*.js")):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", path.read_text()
        )


def test_the_page_is_shut_against_other_sites():
    async def test(there):
        fields = (await there.ask("GET", "/dashboard/")).fields
        assert "default-src 'none'" in fields["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in fields["Content-Security-Policy"]
        assert "unsafe" not in fields["Content-Security-Policy"]
        assert fields["X-Content-Type-Options"] == "nosniff"

    run(test)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/dashboard", 301),
        ("GET", "/dashboard/nothing.js", 404),
        ("GET", "/dashboard/../site.py", 404),
        ("GET", "/dashboard/plan", 405),
        ("PUT", "/dashboard/app.js", 405),
        ("GET", "/dashboards", 404),
    ],
)
def test_other_paths(method, path, code):
    assert run(lambda there: there.ask(method, path)).code == code


def test_another_name_gets_nothing():
    for path in ("/dashboard/", "/dashboard/stream"):
        answer = run(lambda there, path=path: there.ask("GET", path, Host="evil.example"))
        assert answer.code == 421
        assert b"token" not in answer.body


# The stream ------------------------------------------------------------------------------------------------------


def test_a_whole_and_then_patches():
    async def test(there):
        async with watching(there) as events:
            whole = await events.next("whole")
            assert len(whole["brokers"]) == 30
            assert len(whole["links"]) == 29
            patch = await events.next("patch")
            assert patch["at"] > whole["at"]
            assert "zone" not in str(patch)
            assert len(merged(whole, patch)["links"]) == 29

    run(test)


def test_nobody_watches_and_nobody_is_asked():
    class Counting(SimulatedSource):
        looks = 0

        async def snapshot(self):
            self.looks += 1
            return await super().snapshot()

    source = Counting(3, 1)

    async def test(there):
        async with watching(there) as events:
            await events.next("whole")
        async with asyncio.timeout(30):
            while there.dashboard._snapshots.watchers:  # noqa: ASYNC110 - the server notes it when it next writes
                await asyncio.sleep(0.05)
        assert there.dashboard._snapshots._polling is None

    run(test, source)
    assert source.looks >= 1


def test_a_source_that_fails_is_said_and_comes_back():
    class Failing(SimulatedSource):
        fails = True

        async def snapshot(self):
            if self.fails:
                self.fails = False
                raise RuntimeError("broken on purpose")
            return await super().snapshot()

    async def test(there):
        async with watching(there) as events:
            assert "broken on purpose" in (await events.next("whole"))["source"]["trouble"]
            there.dashboard._snapshots.wake()
            assert (await events.next("patch"))["source"]["trouble"] == ""

    run(test, Failing(3, 1))


def test_there_is_an_end_to_how_many_may_watch(monkeypatch):
    monkeypatch.setattr(stream, "WATCHERS_MAX", 1)

    async def test(there):
        async with watching(there) as events:
            await events.next("whole")
            answer = await there.ask("GET", "/dashboard/stream")
            assert answer.code == 503
            assert "too many" in answer.value["error"]

    run(test)


# Actions ---------------------------------------------------------------------------------------------------------


def test_a_plan_is_shown_then_carried_out_once():
    async def test(there):
        request = await swap_of(there)
        shown = (await there.act("plan", request)).value
        assert shown["links_removed"] == [sorted([request["a"], request["b"]])]
        assert shown["links_added"] == [sorted([request["a"], request["c"]])]
        assert "1 swap" in shown["lines"][0]
        async with watching(there) as events:
            whole = await events.next("whole")
            assert (await there.act("apply", {"draft": shown["draft"]})).value == {"run": shown["draft"]}
            assert "being carried out" in (await there.act("apply", {"draft": shown["draft"]})).value["error"]
            while whole["runs"].get(shown["draft"], {}).get("state") != "done":
                whole = merged(whole, await events.next("patch"))
        assert "\n".join(sorted([request["a"], request["c"]])) in whole["links"]
        again = await there.act("apply", {"draft": shown["draft"]})
        assert again.code == 409
        assert "make it anew" in again.value["error"]

    run(test)


@pytest.mark.parametrize(
    ("name", "body", "code", "said"),
    [
        ("plan", {"do": "swap", "a": "x", "b": "y", "c": "z"}, 409, "there is no link x–y"),
        ("plan", {"do": "dance"}, 409, "swap, exchange, add, remove, drain, move"),
        ("plan", {"do": "drain", "broker": "nobody"}, 409, "'nobody' is not a broker of this tree"),
        ("plan", {"do": "drain", "broker": "b01", "rate": 0}, 409, "`$.rate`"),
        ("plan", {"do": "move", "client": "nobody", "to": "b01"}, 409, "no broker has a client 'nobody'"),
        ("plan", {"do": "move", "client": "client-1"}, 409, "missing required field `to`"),
        ("plan", {"do": "swap", "a": "b01"}, 409, "missing required field `b`"),
        ("plan", {"do": "remove", "broker": "nobody"}, 409, "nobody"),
        ("apply", {"draft": "old"}, 409, "make it anew"),
        ("apply", {}, 409, "draft"),
        ("apply", {"draft": 3}, 409, "draft"),
        ("film", {"run": "x"}, 409, "simulated"),
        ("interest", {"filter": "price >"}, 400, "wanted a literal"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(name, body, code, said):
    answer = run(lambda there: there.act(name, body))
    assert answer.code == code
    assert said in answer.value["error"]


def test_a_bad_filter_has_a_column():
    answer = run(lambda there: there.act("interest", {"filter": "price = 5 AND > 3"}))
    assert answer.value["column"] == 15


@pytest.mark.parametrize(
    "fields",
    [
        {"X_Pleach_Token": ""},
        {"X_Pleach_Token": "guessed"},
        {"X_Pleach_Token": "ü"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_other_sites_change_nothing(fields):
    async def test(there):
        answer = await there.act("plan", await swap_of(there), **fields)
        assert answer.code == 403
        assert not there.dashboard._runs._drafts

    run(test)


def test_tokens_are_of_one_process():
    source = SimulatedSource(3, 1)
    assert Dashboard(source).token != Dashboard(source).token


def test_a_plan_is_carried_out_for_who_may_do_what_is_in_it():
    async def test(there):
        runs, reweaver = there.dashboard._runs, Caller("127.0.0.1", frozenset({Verb.READ, Verb.REWEAVE}))
        removal = (await there.act("plan", {"do": "remove", "broker": "b01"})).value["draft"]
        with pytest.raises(DeniedError, match="'remove'"):
            runs.carry_out(removal, reweaver)
        swap = (await there.act("plan", await swap_of(there))).value["draft"]
        assert runs.carry_out(swap, reweaver) == {"run": swap}
        await runs._carrying
        assert runs.carry_out(removal, everybody(Evidence("127.0.0.1", b"", {}))) == {
            "run": removal
        }  # it was not used up

    run(test)


def test_a_body_must_be_json():
    async def test(there):
        wrong = await there.act("plan", {}, Content_Type="text/plain")
        assert wrong.code == 415
        for body in (b"", b"[1]", b"\xff", b"[" * 5000):
            answer = await there.ask("POST", "/dashboard/plan", body, X_Pleach_Token=there.token)
            assert answer.code == 400, body[:10]

    run(test)


# The look --------------------------------------------------------------------------------------------------------


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_can_be_read(scheme):
    """WCAG AA: 4.5 for text, 3 for what is drawn."""
    blocks = re.findall(r":root \{(.*?)\}", (PAGE / "style.css").read_text(), re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[scheme]))
    for text in ("ink", "muted", "accent", "bad", "warn"):
        for ground in ("paper", "surface", "tint"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5


@pytest.mark.parametrize("path", sorted(PAGE.glob("*.js")), ids=lambda path: path.name)
def test_modules_are_as_short_as_ours(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("// ")  # each says what it is
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120


def test_only_the_page_can_be_loaded():
    assert set(page_files()) == {path.name for path in PAGE.iterdir()}
