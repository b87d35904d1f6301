"""No false alarms: traces of a correct network with churn, answers, failures and moves are judged clean."""

from pleach.trace import explain, judge
from support.thorough import FACTOR
from support.trace.tiny_network import clean_story

TRACES = 400 * FACTOR  # PLEACH_THOROUGH=25 makes 10,000


def test_clean_traces_are_judged_clean():
    for seed in range(TRACES):
        records = clean_story(seed).records
        verdict = judge(records)
        assert verdict.clean, explain(verdict, records)


def test_the_generator_makes_what_the_rules_speak_of():
    """A false alarm can only show where there is churn, and where deliveries are owed and others are not."""
    stories = [clean_story(seed) for seed in range(50)]
    delivered = [one for story in stories for one in story.delivered]
    assert sum(one.owed_to is not None for one in delivered) > 500
    assert sum(one.owed_to is None for one in delivered) > 100
    assert sum(taken.ended is not None for story in stories for taken in story.taken) > 100
    assert {one.fate for story in stories for one in story.published} == {
        "acknowledged",
        "silent",
        "failed",
        "vanished",
    }
    assert any(one.event.publisher == one.client for one in delivered)
    assert sum(len(story.drains) > 1 for story in stories) > 25
