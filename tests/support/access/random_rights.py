"""Random rights, filters and events: who gets what, judged by trying events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pleach.core.access.rights import FALSE, TRUE, Denied, Granted, Rights, judge, redacted
from pleach.core.events.algebra import covers
from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from support.events.random_filters import NAMES, random_event, random_filter

EVENTS = 40
Judge = Callable[[Filter, int, Rights], Granted | Denied]


@dataclass
class RightsJudgement:
    seed: int
    flaws: list[str] = field(default_factory=list)
    outcome: str = ""
    matched_by_both: int = 0


def random_rights(random: Random) -> Rights:
    publish, subscribe, advertise = (_random_right(random) for _ in range(3))
    hidden = tuple(sorted(name for name in NAMES if random.random() < 0.08))
    return Rights(publish, subscribe, advertise, hidden, strict=random.random() < 0.15)


def _random_right(random: Random) -> Filter:
    return random.choice((TRUE, FALSE)) if random.random() < 0.1 else random_filter(random)


def judge_case(seed: int, judged_by: Judge = judge) -> RightsJudgement:
    """One right, one filter, some events. `judged_by`: what is tested."""
    random, judgement = Random(seed), RightsJudgement(seed)
    rights, asked, layer = random_rights(random), random_filter(random), random.randrange(2)
    right = (rights.subscribe, rights.advertise)[layer]
    events = [random_event(random) for _ in range(EVENTS)]
    both = [event for event in events if asked.matches(event) and right.matches(event)]
    judgement.matched_by_both = len(both)
    names_hidden = any(name in rights.hidden for each in asked.conjunctions for name in each.constraints)
    case = f"right {right}, asked {asked}, hidden {rights.hidden}, strict {rights.strict}"
    match judged_by(asked, layer, rights):
        case Granted(effective, is_narrowed):
            judgement.outcome = "narrowed" if is_narrowed else "granted"
            judgement.flaws += _of_granted(effective, both, events)
            judgement.flaws += ["names what is hidden"] * names_hidden
            judgement.flaws += ["narrowed though strict"] * (is_narrowed and rights.strict)
            judgement.flaws += ["changed, and not said so"] * (not is_narrowed and effective != asked)
        case Denied(reason):
            judgement.outcome = "denied"
            excused = names_hidden or (rights.strict and not covers(right, asked))
            if both and not excused:
                judgement.flaws.append(f"denied ({reason}), though {both[0]} matches both")
    judgement.flaws += _of_hidden(rights, events)
    judgement.flaws = [f"{flaw}: {case}" for flaw in judgement.flaws]
    return judgement


def _of_granted(effective: Filter, both: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[str]:
    got = [event for event in events if effective.matches(event)]
    leaked = [f"gets {event}, which its right or its filter does not match" for event in got if event not in both]
    return [*leaked, *(f"does not get {event}" for event in both if event not in got)]


def _of_hidden(rights: Rights, events: list[dict[str, Any]]) -> list[str]:
    shown = [redacted(Event(EventId("p", 0, 1), event), rights.hidden).attributes for event in events]
    return [f"shows {seen}" for seen in shown if set(seen) & set(rights.hidden)] + [
        f"lacks more than what is hidden: {seen}"
        for seen, event in zip(shown, events, strict=True)
        if set(event) - set(seen) - set(rights.hidden)
    ]


def replay(judgement: RightsJudgement) -> str:
    flaws = "\n".join(f"  {flaw}" for flaw in judgement.flaws)
    return f"python tests/long_run.py rights --first {judgement.seed} --seeds 1 --workers 1\n{flaws}"
