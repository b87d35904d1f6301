"""The oracle's rules, word by word, on traces written by hand."""

import msgspec
import pytest
from scripts import script

from pleach.trace import Outcome, Record, RecordKind, Verdict, explain, judge

T1 = '{"topic":"t1"}'
SUBSCRIBED = """
    1 c subscribe s1 | topic = 't1'
    2 c subscribe_ack s1
"""


def broken(text: str, **options) -> list[str]:
    """`rule client event` of each violation; the trace must be usable."""
    verdict = judge(script(text), **options)
    assert verdict.usable, verdict.unusable
    return spelt(verdict)


def spelt(verdict: Verdict) -> list[str]:
    return [f"{one.rule} {one.client} {one.event}" for one in verdict.violations]


class TestLost:
    def test_acknowledged_and_never_delivered(self):
        text = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 p publish_ack p/0/1\n 5 - drain"
        assert broken(text) == ["lost c p/0/1"]

    def test_delivered_only_after_the_final_drain(self):
        text = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 p publish_ack p/0/1\n 5 - drain\n 6 c deliver p/0/1"
        assert broken(text) == ["lost c p/0/1"]

    def test_neither_acknowledged_nor_got_by_anyone(self):
        assert broken(f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 5 - drain") == []

    def test_not_acknowledged_but_got_by_another(self):
        text = f"""{SUBSCRIBED}
            2 d subscribe s1 | topic = 't1'
            3 p publish p/0/1 | {T1}
            4 d deliver p/0/1
            5 - drain"""
        assert broken(text) == ["lost c p/0/1"]

    @pytest.mark.parametrize("acknowledged", ["4 c subscribe_ack s1", "2 c subscribe_ack s1 local", ""])
    def test_subscription_not_acknowledged_before(self, acknowledged: str):
        lines = [
            "1 c subscribe s1 | topic = 't1'",
            f"3 p publish p/0/1 | {T1}",
            "5 p publish_ack p/0/1",
            "6 - drain",
        ]
        assert broken("\n".join(sorted([*lines, acknowledged]))) == []

    def test_filter_does_not_match(self):
        text = f'{SUBSCRIBED} 3 p publish p/0/1 | {{"topic":"t2"}}\n 4 p publish_ack p/0/1\n 5 - drain'
        assert broken(text) == []

    def test_unsubscribed_before_it_could_come(self):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 p publish_ack p/0/1
            5 c unsubscribe s1
            6 - drain"""
        assert broken(text) == []

    def test_drain_between_acknowledgement_and_unsubscribe(self):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 p publish_ack p/0/1
            5 - drain
            6 c unsubscribe s1
            7 - drain"""
        assert broken(text) == ["lost c p/0/1"]

    def test_drain_before_acknowledgement_says_nothing(self):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 - drain
            5 p publish_ack p/0/1
            6 c unsubscribe s1
            7 - drain"""
        assert broken(text) == []

    LATER = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 p publish_ack p/0/1
            5 p publish p/0/2 | {T1}
            6 c deliver p/0/2
            7 c unsubscribe s1
            8 - drain"""

    def test_later_matching_event_before_unsubscribe(self):
        assert broken(self.LATER) == ["lost c p/0/1"]
        assert broken(self.LATER, ordering="fifo") == ["lost c p/0/1"]

    def test_later_event_proves_nothing_without_order(self):
        assert broken(self.LATER, ordering="none") == []

    def test_later_event_after_unsubscribe_proves_nothing(self):
        swapped = self.LATER.replace(
            "6 c deliver p/0/2\n            7 c unsubscribe s1", "6 c unsubscribe s1\n7 c deliver p/0/2"
        )
        assert swapped != self.LATER
        assert broken(swapped) == []

    def test_later_event_for_another_subscription_proves_nothing(self):
        text = f"""{SUBSCRIBED}
            2 c subscribe s2 | topic = 't2'
            3 p publish p/0/1 | {T1}
            4 p publish_ack p/0/1
            5 p publish p/0/2 | {{"topic":"t2"}}
            6 c deliver p/0/2
            7 c unsubscribe s1
            8 - drain"""
        assert broken(text) == []

    def test_any_of_several_subscriptions_suffices(self):
        text = f"""{SUBSCRIBED}
            2 c subscribe s2 | EXISTS topic
            2.5 c subscribe_ack s2
            3 p publish p/0/1 | {T1}
            4 p publish_ack p/0/1
            5 c unsubscribe s1
            6 - drain"""
        assert broken(text) == ["lost c p/0/1"]

    def test_id_used_again_is_another_subscription(self):
        """The first stretch is ended without a drain; the second comes too late to be owed the event."""
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 p publish_ack p/0/1
            5 c unsubscribe s1
            6 c unsubscribe_ack s1
            7 c subscribe s1 | topic = 't1'
            8 c subscribe_ack s1
            9 p publish p/0/2 | {T1}
            10 p publish_ack p/0/2
            11 - drain"""
        assert broken(text) == ["lost c p/0/2"]

    def test_late_acknowledgement_of_an_ended_stretch_is_not_that_of_the_next(self):
        text = f"""
            1 c subscribe s1 | topic = 't1'
            2 c unsubscribe s1
            3 c subscribe s1 | topic = 't1'
            4 c subscribe_ack s1
            5 p publish p/0/1 | {T1}
            6 p publish_ack p/0/1
            7 - drain"""
        assert broken(text) == []

    def test_own_events_are_owed(self):
        text = f"{SUBSCRIBED} 3 c publish c/0/1 | {T1}\n 4 c publish_ack c/0/1\n 5 - drain"
        assert broken(text) == ["lost c c/0/1"]
        assert broken(text.replace("subscribe s1 |", "subscribe s1 no-own |")) == []

    def test_failed_event_that_someone_gets_is_not_owed_to_the_others(self):
        text = f"""{SUBSCRIBED}
            2 d subscribe s1 | topic = 't1'
            3 p publish p/0/1 | {T1}
            4 p publish_fail p/0/1
            5 d deliver p/0/1
            6 - drain"""
        assert broken(text) == ["spurious d p/0/1"]


class TestDuplicate:
    def test_second_delivery_elsewhere(self):
        """Clients are known by name: that another broker delivers changes nothing."""
        text = f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 c deliver p/0/1\n 5 b2 deliver p/0/1\n 6 - drain"
        records = [msgspec.structs.replace(one, client="c") if one.node == "b2" else one for one in script(text)]
        assert spelt(judge(records)) == ["duplicate c p/0/1"]

    def test_copied_row_is_a_duplicate(self):
        records = script(f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 c deliver p/0/1\n 5 - drain")
        assert spelt(judge([*records[:4], records[3], *records[4:]])) == ["duplicate c p/0/1"]

    def test_after_the_subscription_it_is_spurious_too(self):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 c deliver p/0/1
            5 c unsubscribe s1
            6 c unsubscribe_ack s1
            7 c deliver p/0/1
            8 - drain"""
        assert broken(text) == ["spurious c p/0/1", "duplicate c p/0/1"]


class TestSpurious:
    @pytest.mark.parametrize(("at", "expected"), [(5.5, []), (6.5, ["spurious c p/0/1"])])
    def test_until_the_unsubscription_is_acknowledged(self, at: float, expected: list[str]):
        lines = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            5 c unsubscribe s1
            6 c unsubscribe_ack s1
            {at} c deliver p/0/1
            8 - drain""".splitlines()
        text = "\n".join(sorted(filter(None, map(str.strip, lines))))
        assert broken(text) == expected

    def test_from_the_request_on(self):
        text = f"1 p publish p/0/1 | {T1}\n 2 c subscribe s1 | topic = 't1'\n 3 c deliver p/0/1\n 4 - drain"
        assert broken(text) == []

    def test_own_event_not_wanted(self):
        text = f"1 c subscribe s1 no-own | topic = 't1'\n 2 c publish c/0/1 | {T1}\n 3 c deliver c/0/1\n 4 - drain"
        assert broken(text) == ["spurious c c/0/1"]
        assert broken(text.replace("no-own", "")) == []

    def test_published_only_later(self):
        text = f"{SUBSCRIBED} 3 c deliver p/0/1\n 4 p publish p/0/1 | {T1}\n 5 - drain"
        assert broken(text) == ["spurious c p/0/1"]

    def test_retried_after_failure(self):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 p publish_fail p/0/1
            5 p publish p/0/1 | {T1}
            6 p publish_ack p/0/1
            7 c deliver p/0/1
            8 - drain"""
        assert broken(text) == []

    @pytest.mark.parametrize(
        ("delivered", "expected"),
        [
            ('{"price":1,"topic":"t1"}', []),
            ('{ "topic": "t1", "price": 1.0 }', []),  # the same, spelt otherwise
            ("", []),  # not recorded
            ('{"price":true,"topic":"t1"}', ["spurious c p/0/1"]),
            ('{"topic":"t1"}', ["spurious c p/0/1"]),
            ('{"price":2,"topic":"t1"}', ["spurious c p/0/1"]),
        ],
    )
    def test_altered(self, delivered: str, expected: list[str]):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {{"price":1,"topic":"t1"}}
            4 c deliver p/0/1 | {delivered}
            5 - drain"""
        assert broken(text) == expected


class TestOrder:
    def trace(self, *deliveries: str) -> str:
        """p publishes 1 and 2 (incarnation 0) and 1 (incarnation 1); d answers p/0/2; e answers d's answer."""
        happened = "\n".join(f"{10 + i} {line}" for i, line in enumerate(deliveries))
        return f"""
            1 c subscribe s1 | EXISTS topic
            1 d subscribe s1 | EXISTS topic
            1 e subscribe s1 | topic = 'd'
            2 p publish p/0/1 | {{"topic":"p"}}
            3 p publish p/0/2 | {{"topic":"p"}}
            3 p publish p/1/1 | {{"topic":"p"}}
            4 d deliver p/0/1
            5 d deliver p/0/2
            6 d publish d/0/1 | {{"topic":"d"}}
            7 e deliver d/0/1
            8 e publish e/0/1 | {{"topic":"e"}}
            {happened}
            99 - drain"""

    def test_in_order(self):
        text = self.trace("c deliver p/0/1", "c deliver p/0/2", "c deliver d/0/1", "c deliver e/0/1", "c deliver p/1/1")
        assert broken(text) == []

    def test_fifo(self):
        assert broken(self.trace("c deliver p/0/2", "c deliver p/0/1")) == ["fifo c p/0/1"]

    def test_fifo_over_incarnations(self):
        assert broken(self.trace("c deliver p/1/1", "c deliver p/0/2")) == ["fifo c p/0/2"]

    def test_causal_answer_first(self):
        assert broken(self.trace("c deliver d/0/1", "c deliver p/0/2")) == ["causal c p/0/2"]

    def test_causal_through_a_client_that_never_got_the_cause(self):
        assert broken(self.trace("c deliver e/0/1", "c deliver p/0/2")) == ["causal c p/0/2"]

    def test_causal_event_before_a_cause(self):
        """p/0/1 is not answered itself, but it comes before p/0/2, which is."""
        assert broken(self.trace("c deliver d/0/1", "c deliver p/0/1")) == ["causal c p/0/1"]

    def test_causal_witness_is_named(self):
        verdict = judge(script(self.trace("c deliver e/0/1", "c deliver d/0/1")))
        (violation,) = verdict.violations
        assert (violation.event, violation.other) == ("d/0/1", "e/0/1")

    def test_later_events_of_the_cause_are_free(self):
        assert broken(self.trace("c deliver d/0/1", "c deliver p/1/1")) == []

    def test_own_events_may_come_after_their_answers(self):
        text = """
            1 c subscribe s1 | EXISTS topic
            1 d subscribe s1 | topic = 'c'
            2 c publish c/0/1 | {"topic":"c"}
            3 d deliver c/0/1
            4 d publish d/0/1 | {"topic":"d"}
            5 c deliver d/0/1
            6 c deliver c/0/1
            7 - drain"""
        assert broken(text) == []

    def test_failed_cause_that_is_delivered_is_only_spurious(self):
        text = self.trace("c deliver q/0/9", "c deliver p/0/2", "c deliver p/0/1")
        assert broken(text) == ["spurious c q/0/9", "fifo c p/0/1"]

    @pytest.mark.parametrize(("ordering", "clean"), [("none", True), ("fifo", True), ("causal", False)])
    def test_the_trace_says_what_is_promised(self, ordering: str, clean: bool):
        text = f"0 - state ordering={ordering}\n" + self.trace("c deliver d/0/1", "c deliver p/0/2")
        verdict = judge(script(text))
        assert verdict.ordering == ordering
        assert verdict.clean == clean
        assert len(verdict.violations) + len(verdict.tolerated) == 1

    def test_the_argument_outweighs_the_trace(self):
        text = "0 - state ordering=none\n" + self.trace("c deliver d/0/1", "c deliver p/0/2")
        assert not judge(script(text), "causal").clean


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
        assert verdict.outcome is Outcome.UNUSABLE
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
        assert verdict.outcome is Outcome.VIOLATED

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


def replaced(record: Record, **changes) -> Record:
    return msgspec.structs.replace(record, **changes)


def test_kinds_are_those_of_the_design():
    assert " ".join(RecordKind) == (
        "publish publish_ack publish_fail subscribe subscribe_ack unsubscribe unsubscribe_ack advertise unadvertise "
        "deliver drain send state fault move"
    )
