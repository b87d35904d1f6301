"""The oracle's rules, word by word, on traces written by hand."""

import pytest

from pleach.trace import judge
from support.trace.written_traces import SUBSCRIBED, T1, broken, replaced, script, spelt


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

    def test_the_acknowledgement_of_a_repeated_request_is_not_that_of_the_next_stretch(self):
        """Asked for again, taken back and asked for once more at once: the second answer is to the repetition."""
        text = f"""{SUBSCRIBED}
            3 c subscribe s1 | topic = 't1'
            4 c unsubscribe s1
            5 c subscribe s1 | topic = 't1'
            6 c subscribe_ack s1
            7 c unsubscribe_ack s1
            8 p publish p/0/1 | {T1}
            9 p publish_ack p/0/1
            10 c subscribe_ack s1
            11 p publish p/0/2 | {T1}
            12 p publish_ack p/0/2
            13 - drain"""
        assert broken(text) == ["lost c p/0/2"]

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
        records = [replaced(one, client="c") if one.node == "b2" else one for one in script(text)]
        assert spelt(judge(records)) == ["duplicate c p/0/1"]

    def test_copied_row_is_a_duplicate(self):
        records = script(f"{SUBSCRIBED} 3 p publish p/0/1 | {T1}\n 4 c deliver p/0/1\n 5 - drain")
        assert spelt(judge([*records[:4], records[3], *records[4:]])) == ["duplicate c p/0/1"]

    def test_both_attempts_of_a_publication_delivered(self):
        text = f"""{SUBSCRIBED}
            3 p publish p/0/1 | {T1}
            4 c deliver p/0/1
            5 p publish_fail p/0/1
            6 p publish p/0/1 | {T1}
            7 c deliver p/0/1
            8 - drain"""
        assert broken(text) == ["duplicate c p/0/1"]

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
