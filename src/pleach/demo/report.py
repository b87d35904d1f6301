"""The report of the demo: one self-contained HTML file without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import atan2, cos, pi, sin
from pathlib import Path

from pleach.core.messages import Node
from pleach.demo.acts import ZONES, zone_of
from pleach.demo.run import Performance, Scene, TreeSnapshot
from pleach.demo.verdict import LAKE, Engine, Gap, Judgement, spoken
from pleach.scenario import steps
from pleach.trace import Record, RecordKind, Rule

FILE = "report.html"
JUDGES = {Engine.SPARK: "Audited on Spark", Engine.REFERENCE: "Audited by the reference oracle"}


def write_report(performance: Performance, judged: Judgement, out: Path) -> Path:
    """Write the page atomically."""
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


# SVG drawings; colours are CSS classes, so that the page chooses light or dark ----------------------------------------

WIDTH, HEIGHT = 480, 376
CENTRES = {"fra": (115.0, 105.0), "nrt": (365.0, 105.0), "iad": (240.0, 262.0)}
MIDDLE = (240.0, 157.0)
ZONE_RADIUS, RING_RADIUS, BROKER_RADIUS, DOT_RADIUS, DOTS_RADIUS = 88.0, 52.0, 17.0, 3.2, 24.0
DOT_ANGLE = 0.34  # between two clients of a broker
TIMELINE_WIDTH, TIMELINE_HEIGHT = 980, 250
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 46, 64
BINS_PER_SECOND = 2
TICKS_MAX = 12


@dataclass(frozen=True)
class Point:
    x: float
    y: float


def places(brokers: Iterable[Node]) -> dict[Node, Point]:
    """The position of each broker on the circle of its zone, in order of names, with far links at the inner side.

    Positions are the same in all pictures of a run.
    """
    found: dict[Node, Point] = {}
    named = sorted(set(brokers))
    for zone, (x, y) in CENTRES.items():
        inside = [broker for broker in named if zone_of(broker) == zone]
        inwards = atan2(MIDDLE[1] - y, MIDDLE[0] - x)
        for index, broker in enumerate(inside):
            angle = inwards + 2 * pi * index / len(inside)
            found[broker] = Point(x + RING_RADIUS * cos(angle), y + RING_RADIUS * sin(angle))
    return found


# Trees --------------------------------------------------------------------------------------------------------


def tree_svg(
    tree: TreeSnapshot, other: TreeSnapshot, where: Mapping[Node, Point], *, mark: str, struck: frozenset[Node]
) -> str:
    """`mark`: the class of parts that `other`, the tree before or after, lacks. `struck`: brokers that were lost."""
    parts = [*_zones()]
    for a, b in sorted(tree.topology.links):
        kind = "link" if (a, b) in other.topology.links else f"link {mark}"
        parts.append(_line(where[a], where[b], kind))
    for broker in sorted(tree.topology.brokers):
        kind = mark if broker not in other.topology.brokers else "struck" if broker in struck else ""
        clients = sorted(client for client, home in tree.homes.items() if home == broker)
        parts += _broker(broker, where[broker], kind, clients, other.homes, mark)
    said = f"{len(tree.topology.brokers)} brokers, {len(tree.homes)} clients"
    return _svg(WIDTH, HEIGHT, parts, f"the tree: {said}")


def _zones() -> Iterator[str]:
    for zone, (x, y) in CENTRES.items():
        yield f'<circle class="zone" cx="{x:.1f}" cy="{y:.1f}" r="{ZONE_RADIUS:.0f}"/>'
        yield _text(x, y - ZONE_RADIUS - 4 if zone != "iad" else y + ZONE_RADIUS + 18, ZONES[zone], "zone-name")


def _broker(
    name: Node, at: Point, kind: str, clients: Sequence[Node], other: Mapping[Node, Node], mark: str
) -> Iterator[str]:
    yield f'<g class="broker {kind}"><title>{escape(name)}: {escape(", ".join(clients) or "no clients")}</title>'
    yield f'<circle cx="{at.x:.1f}" cy="{at.y:.1f}" r="{BROKER_RADIUS:.0f}"/>{_text(at.x, at.y + 4, name, "name")}'
    for index, client in enumerate(clients):
        angle = (index - (len(clients) - 1) / 2) * DOT_ANGLE + pi / 2
        x, y = at.x + DOTS_RADIUS * cos(angle), at.y + DOTS_RADIUS * sin(angle)
        moved = "" if other.get(client) == name else f" {mark}"
        yield f'<circle class="client{moved}" cx="{x:.1f}" cy="{y:.1f}" r="{DOT_RADIUS}"/>'
    yield "</g>"


def struck_in(scene: Scene) -> frozenset[Node]:
    return frozenset(step.broker for step in scene.act.steps if isinstance(step, steps.Destroy))


# Times --------------------------------------------------------------------------------------------------------


class _Axis:
    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1.0)

    def x(self, at: float) -> float:
        return LEFT + (TIMELINE_WIDTH - LEFT - RIGHT) * min(max(at, 0.0), self.seconds) / self.seconds


def timeline_svg(scenes: Sequence[Scene], found: Sequence[Gap], records: Sequence[Record], ended_at: float) -> str:
    """Deliveries per second over time; above them the acts, below them the longest gap of each."""
    axis = _Axis(ended_at)
    parts = [*_rates(axis, records)]
    for number, (scene, gap) in enumerate(zip(scenes, found, strict=True), start=1):
        parts += _act(axis, scene, number)
        parts += _gap(axis, gap)
    floor = TIMELINE_HEIGHT - BOTTOM
    parts.append(_text(4, floor + 19, "gaps", "axis start"))
    step = max(1, round(axis.seconds / TICKS_MAX))
    for second in range(0, int(axis.seconds) + 1, step):
        parts.append(_text(axis.x(second), TIMELINE_HEIGHT - 8, f"{second} s", "axis"))
    return _svg(TIMELINE_WIDTH, TIMELINE_HEIGHT, parts, "deliveries over time, with the acts and the longest gaps")


def _rates(axis: _Axis, records: Sequence[Record]) -> Iterator[str]:
    counts = [0] * (int(axis.seconds * BINS_PER_SECOND) + 1)
    for record in records:
        if record.kind == RecordKind.DELIVER:
            counts[min(int(record.at * BINS_PER_SECOND), len(counts) - 1)] += 1
    top = max(*counts, 1)
    floor = TIMELINE_HEIGHT - BOTTOM
    for index, count in enumerate(counts):
        left, right = axis.x(index / BINS_PER_SECOND), axis.x((index + 1) / BINS_PER_SECOND)
        height = (floor - TOP) * count / top
        yield _rect(left, floor - height, max(right - left - 0.6, 0.2), height, "rate")
    yield _text(LEFT - 6, TOP + 4, f"{top * BINS_PER_SECOND}/s", "axis end")
    yield _text(LEFT - 6, floor + 4, "0", "axis end")


def _act(axis: _Axis, scene: Scene, number: int) -> Iterator[str]:
    left, changed, right = axis.x(scene.began_at), axis.x(scene.changed_at), axis.x(scene.ended_at)
    yield _rect(left, TOP - 10, right - left, TIMELINE_HEIGHT - TOP - BOTTOM + 10, "act odd" if number % 2 else "act")
    yield _rect(left, TOP - 14, max(changed - left, 2.0), 5, "change")
    yield _text((left + right) / 2, TOP - 22, scene.act.name, "axis")


def _gap(axis: _Axis, gap: Gap) -> Iterator[str]:
    if not gap.client:
        return
    left, right = axis.x(gap.began_at), axis.x(gap.ended_at)
    floor = TIMELINE_HEIGHT - BOTTOM
    yield _rect(left, floor + 12, max(right - left, 2.0), 7, "gap")
    yield _text((left + right) / 2, floor + 34, spoken(gap.seconds), "axis")


# SVG ----------------------------------------------------------------------------------------------------------


def _svg(width: int, height: int, parts: Iterable[str], label: str) -> str:
    inside = "\n".join(parts)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">\n{inside}\n</svg>'


def _line(a: Point, b: Point, kind: str) -> str:
    return f'<line class="{kind}" x1="{a.x:.1f}" y1="{a.y:.1f}" x2="{b.x:.1f}" y2="{b.y:.1f}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
