"""The story as one HTML file: nothing in it comes from elsewhere, no script is needed to read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

from pleach.demo.drawing import places, struck_in, timeline_svg, tree_svg
from pleach.demo.gaps import spoken
from pleach.demo.run import Performance, Scene
from pleach.demo.verdict import LAKE, Engine, Judgement
from pleach.trace import Rule

FILE = "report.html"
JUDGES = {Engine.SPARK: "Audited on Spark", Engine.REFERENCE: "Audited by the reference oracle"}


def write_report(performance: Performance, judged: Judgement, out: Path) -> Path:
    """Whole or not at all: a page that was opened before shows the former story until it is loaded again."""
    path = out / FILE
    unfinished = path.with_suffix(".part")
    unfinished.write_text("\n".join(_page(performance, judged)), encoding="utf-8")
    return unfinished.replace(path)


def _page(performance: Performance, judged: Judgement) -> Iterator[str]:
    style = files("pleach.demo").joinpath("report.css").read_text(encoding="utf-8")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Pleach: a story</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>"
    yield from _head(judged)
    yield "<h2>The acts over time</h2>"
    scenes, result = performance.scenes, performance.result
    yield f'<figure class="wide">{timeline_svg(scenes, judged.gaps, result.records, result.ended_at)}'
    yield "<figcaption>Deliveries per second; orange: while a change was under way; red: the longest gap of each act."
    yield "</figcaption></figure>"
    yield from _table(scenes, judged)
    yield from _acts(scenes)
    yield from _further(judged)
    yield "</main>\n</body>\n</html>\n"


def _head(judged: Judgement) -> Iterator[str]:
    kind = "good" if judged.is_clean else "bad"
    outcome = judged.verdict.outcome.value if not judged.shortcomings else f"{judged.verdict.outcome.value}, but"
    yield f'<h1>Nine brokers, three zones, thirty clients: <span class="{kind}">{escape(outcome)}</span></h1>'
    yield f'<p class="lead">{JUDGES[judged.engine]}, with ordering {judged.verdict.ordering.value}.</p>'
    counts = judged.verdict.counts
    figures = {"published": counts.published, "delivered": counts.deliveries}
    figures |= {rule.value: judged.verdict.count(rule) for rule in Rule}
    yield '<dl class="figures">'
    for name, count in figures.items():
        bad = ' class="bad"' if count and name in {*Rule} else ""
        yield f"<div><dt>{escape(name)}</dt><dd{bad}>{count:,}</dd></div>"
    yield f"<div><dt>longest gap</dt><dd>{spoken(judged.longest_gap.seconds)}</dd></div></dl>"
    for line in (*judged.shortcomings, judged.note):
        if line:
            yield f'<p class="note">{escape(line)}</p>'


def _table(scenes: Iterable[Scene], judged: Judgement) -> Iterator[str]:
    yield '<div class="scroll"><table><thead><tr><th>act</th><th>what happens</th><th>change took</th>'
    yield "<th>delivered meanwhile</th><th>longest gap</th><th>at</th></tr></thead><tbody>"
    for scene, gap, delivered in zip(scenes, judged.gaps, judged.delivered, strict=True):
        took = f"{scene.changed_at - scene.began_at:.2f} s"
        cells = [scene.act.name, scene.act.title, took, f"{delivered:,}", spoken(gap.seconds), gap.client]
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div><p>A gap is the longest time that a subscriber got nothing at all although something"
    yield " had been published for it; latency between zones (up to 130 ms a link) counts.</p>"


def _acts(scenes: tuple[Scene, ...]) -> Iterator[str]:
    seen = [tree for scene in scenes for tree in (scene.before, scene.after)]
    where = places(broker for tree in seen for broker in tree.topology.brokers)
    for number, scene in enumerate(scenes, start=1):
        struck = struck_in(scene)
        yield f"<section><h2>{number}. {escape(scene.act.title)}</h2><p>{escape(scene.act.says)}</p>"
        before = tree_svg(scene.before, scene.after, where, mark="goes", struck=struck)
        after = tree_svg(scene.after, scene.before, where, mark="comes", struck=frozenset())
        pictures = {"before": before, "after": after} if before != after else {"before and after": after}
        shown = (f"<figure>{svg}<figcaption>{caption}</figcaption></figure>" for caption, svg in pictures.items())
        yield f'<div class="pair">{"".join(shown)}</div>'
        for note in scene.notes:
            yield f"<p>{escape(note)}</p>"
        for refusal in scene.refusals:
            yield f'<p class="note">refused: {escape(refusal)}</p>'
        yield "</section>"


def _further(judged: Judgement) -> Iterator[str]:
    if judged.trace is None:
        return
    yield "<h2>Look closer</h2><p>From the folder of this page:</p>"
    yield f"<pre>pleach dashboard --trace {LAKE}    # the run again, with a slider"
    yield f"pleach audit {LAKE} --engine reference    # a second opinion</pre>"
