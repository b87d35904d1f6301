"""A recorded run as a film: frames, each the patch of its picture to the one before (patch.py).

There is a frame for each step of a reconfiguration and for each fault, and so many in even steps of time; rates are
those of these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pleach.scenario.initial_tree import InitialTree
from pleach.trace import Record, RecordKind, judge
from pleach.web.patch import difference, plain
from pleach.web.picture import Kind, Source
from pleach.web.stage import Stage, inferred

EVEN_FRAMES = 300
EVENTFUL_FRAMES_MAX = 1_500
ENTRIES_MAX = 150_000  # links in all frames together: larger trees have fewer of them
SECONDS_MIN = 1e-9  # of a step: a run may be over at once
EVENTFUL = frozenset({RecordKind.STATE, RecordKind.FAULT})


def film_of(run: str, records: Sequence[Record], outline: InitialTree | None) -> dict[str, Any]:
    """What page/replay.js plays. `records` are in total order."""
    began, ended = records[0].at, records[-1].at
    tree = outline or inferred(records)
    stage = Stage(tree, has_sends=any(record.kind == RecordKind.SEND for record in records))
    source, verdict = Source(Kind.REPLAY, run), _verdict(records)
    even = max(20, min(EVEN_FRAMES, ENTRIES_MAX // max(1, len(tree.links))))
    step = max((ended - began) / even, SECONDS_MIN)
    frames: list[dict[str, Any]] = []
    shown: dict[str, Any] = {}
    taken, due = 0, began
    for moment in _moments(records, began, step, even):
        while taken < len(records) and records[taken].at <= moment:
            stage.take(records[taken])
            taken += 1
        if moment >= due:
            stage.read_rates(step)
            due += step
        now = {**plain(stage.picture(source, moment)), "verdict": verdict}
        frames.append({"at": moment, "patch": difference(shown, now)})
        shown = now
    return {"run": run, "from": began, "to": ended, "frames": frames}


def _moments(records: Sequence[Record], began: float, step: float, even: int) -> list[float]:
    evenly = {began + i * step for i in range(even)} | {records[-1].at}
    eventful = list(dict.fromkeys(record.at for record in records if record.kind in EVENTFUL))
    return sorted(evenly | {*eventful[:EVENTFUL_FRAMES_MAX]})


def _verdict(records: Sequence[Record]) -> dict[str, Any]:
    judged = judge(records).to_dict()
    return {name: judged[name] for name in ("outcome", "found", "unusable", "ordering")}
