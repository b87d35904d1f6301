"""Fingerprint of the system's behaviour, to compare two versions of the code.

    python tools/behaviour.py write tools/behaviour.json      # before a change
    python tools/behaviour.py compare tools/behaviour.json    # after it: exit 1 where anything differs

It covers the simulator (a digest of the trace of every scenario in examples/, 20 seeds each), the explorer (counts of
states and transitions of every explored example) and, with `--bench`, figures of the quick benchmarks.

Rule 1: a digest leaves out names and sizes of messages, and the texts of state records: words may change.
Rule 2: everything else of a record counts: who saw what, when, and in which order.
Rule 3: benchmark figures are printed side by side and never fail the comparison; machines are noisy.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pleach.errors import PleachError
from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario
from pleach.trace import Record

HERE = Path(__file__).resolve().parent.parent
EXAMPLES = HERE / "examples"
SEEDS = range(1, 21)
WORDED = ("state",)  # kinds of records whose detail is a text for people
EXPLORED = {
    "chain-of-three": (),
    "chain-of-three, overtaking": ("--plant", "overtaking-unsubscription"),
    "exchange-of-four": ("--timers", "--instant-clients"),
    "printed-begin": ("--timers", "--instant-clients"),
    "printed-sender": ("--timers", "--instant-clients"),
    "printed-unlock": ("--timers", "--instant-clients"),
    "swap": ("--instant-clients", "--states", "100000"),
    "swap, as published": ("--instant-clients", "--states", "20000", "--exchange", "swaplink-published"),
    "swap-of-four": ("--instant-clients", "--states", "100000"),
}
COUNTS = ("outcome", "complete", "states", "transitions", "schedules", "quiet", "failing", "shortest", "longest")
BENCHES = ("match", "cover", "routing", "sim", "forward")


def scenarios() -> Iterator[Path]:
    for path in sorted(EXAMPLES.glob("*.toml")):
        try:
            load_scenario(path)
        except PleachError as error:
            print(f"{path.name}: left out: {error}", file=sys.stderr)
        else:
            yield path


def digest(records: Iterable[Record]) -> str:
    found = hashlib.sha256()
    for r in records:
        detail = "" if r.kind in WORDED else r.detail
        row = (r.at, r.node, r.n, r.kind, r.event, r.client, r.subscription, r.filter, r.attributes, r.peer, detail)
        found.update(repr(row).encode())
    return found.hexdigest()[:16]


def simulated(path: Path, seed: int) -> str:
    """The digest of one run, with the counts that tell a reader how much it stands for."""
    result = run_scenario(load_scenario(path), seed)
    kinds = Counter(record.kind for record in result.records)
    counts = f"{kinds['publish']} published, {kinds['deliver']} delivered, {result.hops} hops"
    return f"{digest(result.records)} ({counts}, {len(result.refusals)} refused)"


def explored(case: str) -> dict[str, object]:
    file = EXAMPLES / f"{case.split(',', maxsplit=1)[0]}.toml"
    command = [sys.executable, "-m", "pleach", "explore", str(file), "--json", *EXPLORED[case]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if not done.stdout:
        raise SystemExit(f"{case}: {done.stderr}")
    summary = json.loads(done.stdout)
    return {name: summary[name] for name in COUNTS}


def benched(name: str) -> dict[str, object]:
    command = [sys.executable, "-m", "pleach", "bench", name, "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {f"{row['case']} ({row['unit']})": {"value": row["value"], "ratio": row.get("ratio")} for row in rows}


def measure(*, bench: bool) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {"simulated": {}, "explored": {}, "bench": {}}
    for path in scenarios():
        print(path.name, file=sys.stderr)
        found["simulated"].update({f"{path.stem} {seed}": simulated(path, seed) for seed in SEEDS})
    for case in EXPLORED:
        print(f"exploring {case}", file=sys.stderr)
        found["explored"][case] = explored(case)
    for name in BENCHES if bench else ():
        print(f"bench {name}", file=sys.stderr)
        found["bench"][name] = benched(name)
    return found


def compare(before: dict[str, dict[str, object]], after: dict[str, dict[str, object]]) -> int:
    """Print what differs; the number of differences."""
    differing = 0
    for part in ("simulated", "explored"):
        for case in sorted(before[part].keys() | after[part].keys()):
            was, now = before[part].get(case), after[part].get(case)
            if was != now:
                differing += 1
                print(f"{part} {case}:\n  before {was}\n  after  {now}")
        print(f"{part}: {len(after[part])} compared")
    for name, cases in after["bench"].items():
        print(f"bench {name}:")
        for case, now in cases.items():  # type: ignore[attr-defined]
            print(f"  {case}: before {before['bench'].get(name, {}).get(case)}, after {now}")  # type: ignore[attr-defined]
    return differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--bench", action="store_true", help="the quick benchmarks as well: three minutes")
    arguments = parser.parse_args()
    after = measure(bench=arguments.bench)
    if arguments.what == "write":
        arguments.file.write_text(json.dumps(after, indent=1) + "\n")
        return
    differing = compare(json.loads(arguments.file.read_text()), after)
    print(f"{differing} differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
