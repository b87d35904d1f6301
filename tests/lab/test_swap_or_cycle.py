"""Swaps beside the whole cycle at once: the quick form of the experiment, and its table."""

from statistics import fmean

from pleach.lab.experiment import Size, Summary, case_key, select
from pleach.lab.findings import Status
from pleach.lab.swap_or_cycle import COORDINATED, PROTOCOLS, SWAPS, cases, measure
from pleach.lab.swap_or_cycle_figures import SHOWN, SWAP_OR_CYCLE, judge, page

SEEDS = range(2)


def summarised(samples_of):
    """Means and extremes, over seeds; intervals are of no interest here."""
    found = []
    for case, runs in samples_of:
        for metric in dict.fromkeys(sample.metric for run in runs for sample in run):
            values = sorted(sample.value for run in runs for sample in run if sample.metric == metric)
            mean, low, high = fmean(values), values[0], values[-1]
            found.append(Summary(case, metric, len(runs), len(values), mean, low, high, low, mean, high, high, high))
    return found


def test_neither_breaks_anything_and_each_has_its_price():
    summaries = summarised([(case, [list(measure(case, seed)) for seed in SEEDS]) for case in cases(Size.QUICK)])
    finding = judge(summaries)
    assert finding.measured.startswith("Neither breaks anything.")
    for metric in ("lost", "duplicate", "spurious", "fifo", "causal", "broken_afterwards", "refused"):
        assert not any(s.maximum for s in select(summaries, metric)), metric
    long = {"cycle": 6, "ordering": "causal"}
    swaps, coordinated = (
        {metric: select(summaries, metric, protocol=protocol, **long)[0].mean for metric in (*SHOWN, "misrouted")}
        for protocol in PROTOCOLS
    )
    assert swaps["completion_ms"] > coordinated["completion_ms"]
    assert swaps["misrouted"] > coordinated["misrouted"]
    rows = page(summaries).splitlines()
    assert len(rows) == 2 + 2
    assert rows[2].startswith("| 3 | 40 | 8 | ")
    assert all(row.count("|") == len(SHOWN) + 4 for row in rows)


def test_a_broken_promise_is_not_a_finding_in_favour():
    (case, *_) = cases(Size.QUICK)
    broken = Summary(case, "lost", 1, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert judge([broken]).status is Status.DIFFERS
    assert judge([broken]).measured.startswith("Broken: lost.")


def test_both_protocols_meet_the_same_cases():
    for size in Size:
        keys = {
            protocol: {
                case_key({k: v for k, v in c.items() if k != "protocol"})
                for c in cases(size)
                if c["protocol"] == protocol
            }
            for protocol in PROTOCOLS
        }
        assert keys[SWAPS] == keys[COORDINATED]
        assert len(cases(size)) == 2 * len(keys[SWAPS])
    assert SWAP_OR_CYCLE.seeds[Size.QUICK] == len(SEEDS)
