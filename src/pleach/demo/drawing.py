"""Trees and times as SVG: plain text, colours by class, so that the page around them decides on light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import atan2, cos, pi, sin

from pleach.core.messages import Node
from pleach.demo.acts import ZONES, zone_of
from pleach.demo.gaps import Gap, spoken
from pleach.demo.run import Scene, TreeSnapshot
from pleach.scenario import steps
from pleach.trace import Record, RecordKind

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
    """A place for each broker: its zone's circle, in order of names, so that far links start at the inner side.

    The same in all pictures of a story.
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
    """`mark`: the class of what `other`, the tree before or after, has not. `struck`: brokers that were killed."""
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
    return frozenset(step.broker for step in scene.act.steps if isinstance(step, steps.Crash))


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
