"""The report of a soak, from its log alone: a page in Markdown, and a chart for each figure that is watched."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pleach.soak.actions import kind_of
from pleach.soak.charts import Chart, Curve
from pleach.soak.log import Began, Ended, Entry, Finished, Minute, Wrong, settings_in
from pleach.soak.watch import FIGURES, Growth, growths
from pleach.trace import Rule

WRONG_SHOWN_MAX = 50
DONE = "done"


@dataclass(frozen=True)
class SoakResult:
    """What a log says."""

    entries: Sequence[Entry]

    @property
    def minutes(self) -> list[Minute]:
        return [entry for entry in self.entries if isinstance(entry, Minute)]

    @property
    def wrong(self) -> list[Wrong]:
        return [entry for entry in self.entries if isinstance(entry, Wrong)]

    @property
    def finished(self) -> Finished | None:
        return next((entry for entry in self.entries if isinstance(entry, Finished)), None)

    @property
    def growths(self) -> list[Growth]:
        return growths(self.minutes)

    @property
    def is_good(self) -> bool:
        end = self.finished
        is_clean = end is not None and end.outcome == "clean"
        return is_clean and not self.wrong and not any(growth.is_growing for growth in self.growths)


def write_report(entries: Sequence[Entry], folder: Path, name: str = "soak") -> Path:
    """`NAME.md` and its charts, `NAME-….svg`."""
    result = SoakResult(entries)
    charts = {f"{name}-{key}.svg": chart for key, chart in _charts(result).items()}
    for file, chart in charts.items():
        (folder / file).write_text(chart.svg(), encoding="utf-8")
    page = folder / f"{name}.md"
    page.write_text("\n".join(_page(result, charts)) + "\n", encoding="utf-8")
    return page


def _page(result: SoakResult, charts: dict[str, Chart]) -> Iterator[str]:
    settings = settings_in(result.entries)
    last = result.minutes[-1] if result.minutes else None
    at = last.at if last else 0.0
    yield "# A soak\n"
    asked = f"{settings.per_second:g} events/s asked for"
    yield f"{settings.brokers} brokers with everything on, {asked}, seed {settings.seed}."
    yield f"{at / 60:.1f} of {settings.seconds / 60:g} minutes. **{_outcome(result)}**\n"
    yield "| published | delivered | per second | " + " | ".join(Rule) + " | actions |"
    yield "|---|---|---|" + "---|" * (len(Rule) + 1)
    end = result.finished
    published, deliveries = (last.flow.published, last.flow.deliveries) if last else (0, 0)
    found = end.found if end else last.flow.found if last else {}
    rate = published / at if at else 0.0
    counts = " | ".join(str(found.get(rule, 0)) for rule in Rule)
    actions = sum(isinstance(entry, Began) for entry in result.entries)
    yield f"| {published:,} | {deliveries:,} | {rate:,.0f} | {counts} | {actions} |\n"
    yield from _growth_table(result)
    yield from _action_table(result)
    yield from _wrong_list(result)
    for file, chart in charts.items():
        yield f"\n![{chart.title}]({file})"


def _outcome(result: SoakResult) -> str:
    end = result.finished
    if end is None:
        return "No verdict: it goes on, or was ended before its time; nothing is said about what is under way."
    return f"Verdict: {end.outcome}." + (f" {end.unusable}" if end.unusable else "")


def _growth_table(result: SoakResult) -> Iterator[str]:
    found = result.growths
    if not found:
        yield "The run is too short to say whether anything grows.\n"
        return
    yield "## Growth\n\n| | first quarter | last quarter | |\n|---|---|---|---|"
    for growth in found:
        verdict = "**grows**" if growth.is_growing else ""
        yield f"| {growth.what} | {growth.first:.2f} | {growth.last:.2f} | {growth.share:+.1%} {verdict} |"
    yield ""


def _action_table(result: SoakResult) -> Iterator[str]:
    kinds = {entry.n: kind_of(entry.action) for entry in result.entries if isinstance(entry, Began)}
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    seconds: dict[str, list[float]] = defaultdict(list)
    for entry in result.entries:
        if isinstance(entry, Ended):
            kind = kinds[entry.n]
            (done if entry.outcome == DONE else refused)[kind] += 1
            seconds[kind].append(entry.seconds)
    yield "## Actions\n\n| | done | refused | seconds, median | longest |\n|---|---|---|---|---|"
    for kind in sorted(seconds):
        times = seconds[kind]
        yield f"| {kind} | {done[kind]} | {refused[kind]} | {median(times):.1f} | {max(times):.1f} |"
    yield ""


def _wrong_list(result: SoakResult) -> Iterator[str]:
    wrong = result.wrong
    if not wrong:
        return
    yield f"## Wrong: {len(wrong)}\n"
    for entry in wrong[:WRONG_SHOWN_MAX]:
        yield f"- {entry.at:.0f} s: {entry.what}"


def _charts(result: SoakResult) -> dict[str, Chart]:
    minutes, marks = result.minutes, [entry.at / 60 for entry in result.wrong]
    at = [minute.at / 60 for minute in minutes]

    def chart(title: str, **curves: list[float]) -> Chart:
        return Chart(title, at, [Curve(name.replace("_", " "), values) for name, values in curves.items()], marks)

    def figure(what: str) -> list[float]:
        read, _ = FIGURES[what]
        return [read(minute) for minute in minutes]

    published = [0, *(minute.flow.published for minute in minutes)]
    delivered = [0, *(minute.flow.deliveries for minute in minutes)]
    times = [0.0, *(minute.at for minute in minutes)]
    return {
        "events": chart("events per second", published=_rates(published, times), delivered=_rates(delivered, times)),
        "latency": chart(
            "latency (s)",
            p50=[minute.flow.latency_p50 for minute in minutes],
            p99=[minute.flow.latency_p99 for minute in minutes],
        ),
        "memory": chart(
            "resident memory (MB)",
            per_process=figure("memory per process (MB)"),
            of_the_soak=figure("the soak's own memory (MB)"),
        ),
        "memory-sum": chart("resident memory of all brokers (MB)", sum=[m.used.memory_bytes / 1e6 for m in minutes]),
        "files": chart("open files", per_process=figure("open files per process")),
        "disk": chart("disk (MB)", per_machine=figure("disk per machine (MB)")),
        "processes": chart(
            "processes and machines",
            processes=[float(m.used.processes) for m in minutes],
            machines=[float(m.used.machines) for m in minutes],
        ),
    }


def _rates(counts: Sequence[int], times: Sequence[float]) -> list[float]:
    pairs = zip(counts, counts[1:], times, times[1:], strict=False)
    return [(after - before) / max(1e-9, end - begin) for before, after, begin, end in pairs]
