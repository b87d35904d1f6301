"""The oracle's answers: suspensions, traces that cannot be judged, counts, explanations."""

import msgspec
import pytest

from pleach.trace import VerdictOutcome, explain, judge
from support.trace.written_traces import SUBSCRIBED, T1, broken, replaced, script, spelt


class TestSuspension:
    FAULT = f"""{SUBSCRIBED}
        5 b fault corrupt table stabilises=10 flight=1
        15 - drain"""

    def judged(self, *lines: str) -> list[str]:
        text = [*self.FAULT.splitlines(), *lines, "99 - drain"]
        return broken("\n".join(sorted(filter(None, map(str.strip, text)), key=lambda line: float(line.split()[0]))))

    @pytest.mark.parametrize(
        ("at", "expected"),
        [(3.9, ["lost c p/0/1"]), (4.0, []), (5.0, []), (15.0, []), (15.1, ["lost c p/0/1"])],
    )
    def test_lost(self, at: float, expected: list[str]):
        assert self.judged(f"{at} p publish p/0/1 | {T1}", f"{at + 0.05} p publish_ack p/0/1") == expected

    @pytest.mark.parametrize(("accepted_at", "expected"), [(3.9, ["lost c p/0/1"]), (4.0, []), (7.0, []), (15.1, [])])
    @pytest.mark.parametrize("by", ["p publish_ack", "d deliver"])
    def test_what_its_client_kept_is_lost_after_it_was_accepted(self, by: str, accepted_at: float, expected: list[str]):
        """Nobody sees when it sets out: at the latest when it is acknowledged, or given to another client."""
        other = "0 d subscribe s1 | topic = 't1'"
        assert self.judged(other, f"3 p publish p/0/1 | {T1}", f"{accepted_at} {by} p/0/1") == expected

    @pytest.mark.parametrize(
        ("at", "expected"), [(4.9, ["duplicate c p/0/1"]), (5, []), (15, []), (15.1, ["duplicate c p/0/1"])]
    )
    def test_deliveries(self, at: float, expected: list[str]):
        lines = f"3 p publish p/0/1 | {T1}", "3.5 c deliver p/0/1", f"{at} c deliver p/0/1"
        assert self.judged(*lines) == expected

    def test_events_published_meanwhile_are_not_judged_afterwards(self):
        lines = f"7 p publish p/0/1 | {T1}", "20 c deliver p/0/1", "21 c deliver p/0/1"
        assert self.judged(*lines) == []

    def test_what_was_got_meanwhile_is_remembered(self):
        lines = f"3 p publish p/0/1 | {T1}", "7 c deliver p/0/1", "20 c deliver p/0/1"
        assert self.judged(*lines) == ["duplicate c p/0/1"]

    def test_other_faults_suspend_nothing(self):
        text = f"{SUBSCRIBED} 5 b fault crash\n 6 c deliver p/0/1\n 7 - drain"
        assert broken(text) == ["spurious c p/0/1"]

    def test_what_was_set_aside_is_counted(self):
        text = f"{SUBSCRIBED} 5 b fault stabilises=2\n 6 c deliver p/0/1\n 7 - drain"
        verdict = judge(script(text))
        assert verdict.clean
        assert verdict.counts.set_aside == verdict.counts.suspensions == 1


class TestUnusable:
    GOOD = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 c deliver p/0/1\n 5 - drain"

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            (lambda records: [], "no records"),
            (lambda records: records[:-1], "no drain"),
            (lambda records: [*records, replaced(records[2], at=9.0, n=9, event="p/0/2")], "after the final drain"),
            (lambda records: [*records, replaced(records[2], at=9.0, n=9)], "published twice"),
            (lambda records: [*records[:3], replaced(records[3], n=1), records[4]], "n = 1 after n = 2"),
            (lambda records: [*records[:3], replaced(records[3], at=2.5), records[4]], "total order"),
            (lambda records: [*records[:3], replaced(records[3], at=float("nan")), records[4]], "nan"),
            (lambda records: [*records[:3], replaced(records[3], run="other"), records[4]], "other"),
            (lambda records: [*records[:3], replaced(records[3], kind="received"), records[4]], "received"),
            (lambda records: [replaced(records[0], filter="topic = ="), *records[1:]], "does not parse"),
            (lambda records: [*records[:2], replaced(records[2], event="p1"), *records[3:]], "event id"),
            (lambda records: [*records[:2], replaced(records[2], client="q"), *records[3:]], "another client"),
            (lambda records: [*records[:2], replaced(records[2], attributes="[1]"), *records[3:]], "JSON"),
            (lambda records: [*records[:2], replaced(records[2], attributes='{"a":null}'), *records[3:]], "None"),
            (
                lambda records: [records[0], replaced(records[0], n=2, filter="EXISTS x"), *records[2:]],
                "another filter",
            ),
        ],
    )
    def test_reason_is_given(self, spoil, reason: str):
        assert judge(script(self.GOOD)).clean
        verdict = judge(spoil(script(self.GOOD)))
        assert not verdict.usable
        assert not verdict.clean
        assert verdict.outcome is VerdictOutcome.UNUSABLE
        assert reason in verdict.unusable

    @pytest.mark.parametrize(
        "detail", ["stabilises=soon", "stabilises=-1", "stabilises=inf", "stabilises=", "stabilises=1 flight=x"]
    )
    def test_suspensions_must_be_numbers(self, detail: str):
        verdict = judge(script(f"{self.GOOD}\n 6 b fault {detail}"))
        assert "number of seconds" in verdict.unusable

    def test_orderings_must_be_known_and_one(self):
        assert "total" in judge(script(f"{self.GOOD}\n 6 - state ordering=total")).unusable
        both = f"{self.GOOD}\n 6 - state ordering=fifo\n 7 - state ordering=none"
        assert "both" in judge(script(both)).unusable

    @pytest.mark.parametrize("first", ["publish_ack", "publish_fail"])
    def test_acknowledged_and_failed(self, first: str):
        second = "publish_fail" if first == "publish_ack" else "publish_ack"
        text = f"1 p publish p/0/1 | {T1}\n 2 p {first} p/0/1\n 3 p {second} p/0/1\n 4 - drain"
        assert "after it" in judge(script(text)).unusable

    def test_violations_of_a_trace_without_drain_stand(self):
        text = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 c deliver p/0/1\n 5 c deliver p/0/1"
        verdict = judge(script(text))
        assert spelt(verdict) == ["duplicate c p/0/1"]
        assert not verdict.usable
        assert verdict.outcome is VerdictOutcome.VIOLATED

    def test_strange_acknowledgements_are_counted_not_refused(self):
        text = f"{self.GOOD}\n 6 c subscribe_ack s7\n 7 c unsubscribe s8\n 8 p publish_ack p/0/9"
        verdict = judge(script(text))
        assert verdict.clean
        assert verdict.counts.unpaired == 3


def test_subscribing_again_to_the_same_is_idempotent():
    text = (
        f"{SUBSCRIBED} 3 c subscribe s1 | topic = 't1'\n 4 p publish p/0/1 | {T1}\n 5 p publish_ack p/0/1\n 6 - drain"
    )
    assert broken(text) == ["lost c p/0/1"]
    assert judge(script(text)).counts.subscriptions == 1


def test_subscriptions_without_id_are_known_by_their_filter():
    records = [
        replaced(one, subscription="")
        for one in script(
            f"""
            1 c subscribe - | topic = 't1'
            2 c subscribe - | topic = 't2'
            3 c unsubscribe - | topic = 't2'
            4 c unsubscribe_ack - | topic = 't2'
            5 p publish p/0/1 | {T1}
            6 p publish p/0/2 | {{"topic":"t2"}}
            7 c deliver p/0/1
            8 c deliver p/0/2
            9 - drain"""
        )
    ]
    assert spelt(judge(records)) == ["spurious c p/0/2"]


def test_counts_and_json():
    text = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 p publish_ack p/0/1\n 5 - drain"
    said = judge(script(text)).to_dict()
    assert msgspec.json.decode(msgspec.json.encode(said)) == said
    assert said["outcome"] == "violated"
    assert said["found"] == {"lost": 1, "duplicate": 0, "spurious": 0, "fifo": 0, "causal": 0}
    assert said["counts"]["published"] == said["counts"]["acknowledged"] == said["counts"]["drains"] == 1
    assert said["violations"] == [
        {
            "rule": "lost",
            "client": "c",
            "event": "p/0/1",
            "reason": "subscription 's1' was acknowledged before and not ended",
            "index": 2,
            "at": 3.0,
            "other": "",
        }
    ]


def test_explanation_shows_the_records_that_matter():
    text = f"""{SUBSCRIBED}
        2 c subscribe s2 | topic = 't2'
        3 p publish p/0/1 | {T1}
        4 p publish_ack p/0/1
        4 p publish p/0/2 | {T1}
        5 c deliver p/0/2
        6 - drain"""
    records = script(text)
    lines = explain(judge(records), records).splitlines()
    assert lines[0] == "run r: violated (ordering: causal)"
    assert lines[1].startswith("lost: client c, event p/0/1, at 3: ")
    assert [line.split()[-4:] for line in lines[2:4]] == [
        ["s1", "topic", "=", "'t1'"],
        ["2.000000", "c", "subscribe_ack", "s1"],
    ]
    assert [line for line in lines if line.lstrip().startswith(">")] == [lines[4]]
    assert "publish         p/0/1" in lines[4]
    assert lines[-1].split() == ["6.000000", "drain"]
    assert not any("s2" in line or "p/0/2" in line for line in lines)


def test_explanation_is_bounded():
    text = SUBSCRIBED + "\n".join(f"3 c deliver x/0/{i}" for i in range(30)) + "\n4 - drain"
    records = script(text)
    said = explain(judge(records), records, violations_max=3)
    assert said.count("spurious:") == 3
    assert said.endswith("… and 27 more")


def test_explanation_of_an_unusable_trace():
    assert "no records" in explain(judge([]), [])
