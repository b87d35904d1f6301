"""What a fault may take along: events that were under way when it struck, however long ago they were published.

Where publishers advertise, a client keeps what it publishes until its advertisement is in effect. So an event may set
out long after it was published, and be lost in a fault that struck long after that.
"""

from __future__ import annotations

import pytest

from pleach.core.messages import Forward
from pleach.scenario.load import parse_scenario
from pleach.scenario.stabilise_settings import stabilisation_of
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, Rule, judge

PAIR = """
name = "kept by its client"
routing = "simple"
advertisements = true
duration = 9.0
links = [["a", "b"]]
latency = {{ default = 0.1 }}
stabilise = {{ kind = "{kind}", refresh = 1.0, period = 1.5 }}
clients = [
  {{ id = "s", broker = "b", subscribe = ["x > 0"] }},
  {{ id = "p", broker = "a", advertise = ["x > 0"], publish = {{ every = 9, from = 3.0, attributes = {{ x = 1 }} }} }},
]
steps = [
  {{ at = 2.0, do = "unadvertise", client = "p", filter = "x > 0" }},
  {{ at = 2.9, do = "advertise", client = "p", filter = "x > 0" }},
  {{ at = {fault_at}, do = "corrupt", broker = "b", what = "flags" }},
  {more}
]
"""
TAKEN_BACK = '{ at = 2.94, do = "unadvertise", client = "p", filter = "x > 0" }'
PUBLISHED_AT = 3.0
LOST_AT = 3.45  # between a, which it has reached at 3.4, and b
ACKNOWLEDGED_AT = 3.5
FLIGHT = 0.2  # from a to b, and on to s


def verdict_of(kind, fault_at):
    """The event is published at 3.0, kept until 3.3, when the advertisement is in effect, and lost on its way."""
    run = ScenarioRun(parse_scenario(PAIR.format(kind=kind, fault_at=fault_at, more="")), 1)
    run.advance(LOST_AT)
    link, _ = run.sim.links_between("a", "b")
    under_way = run.sim.take_in_flight(link)
    others = [message for message in under_way if not isinstance(message, Forward)]
    assert len(others) == len(under_way) - 1
    run.sim.resend(link, others)
    records = run.finish().records
    [accepted] = [record for record in records if record.kind == RecordKind.PUBLISH_ACK]
    assert accepted.at == pytest.approx(ACKNOWLEDGED_AT)
    return judge(records)


@pytest.mark.parametrize("kind", ["rebuild", "leases"])
@pytest.mark.parametrize("fault_at", [LOST_AT, ACKNOWLEDGED_AT + FLIGHT - 0.01])
def test_an_event_that_its_client_kept_may_be_lost_in_a_fault_that_strikes_while_it_is_under_way(kind, fault_at):
    verdict = verdict_of(kind, fault_at)
    assert verdict.clean, verdict
    assert verdict.counts.set_aside == 1


@pytest.mark.parametrize("kind", ["rebuild", "leases"])
def test_one_that_must_have_arrived_before_the_fault_may_not(kind):
    assert verdict_of(kind, ACKNOWLEDGED_AT + FLIGHT + 0.01).count(Rule.LOST) == 1


@pytest.mark.parametrize("kind", ["rebuild", "leases"])
@pytest.mark.parametrize("struck_at", [2.95, 3.05, 3.15, 3.25])  # on the way to a, to b, back to a, back to p
def test_what_waits_for_a_confirmation_that_a_fault_has_lost_waits_no_longer_than_the_network_needs(kind, struck_at):
    """An advertisement made at 2.9 is taken back before it is in effect: that waits, and what is published later."""
    scenario = parse_scenario(PAIR.format(kind=kind, fault_at=struck_at, more=TAKEN_BACK))
    run = ScenarioRun(scenario, 1)
    run.advance(struck_at)
    assert len(run.clients["p"]._state.waiting) == 1 + (struck_at > PUBLISHED_AT)
    for ends in (("a", "b"), ("p", "a")):
        for link in run.sim.links_between(*ends):
            run.sim.take_in_flight(link)
    run.advance(struck_at + stabilisation_of(scenario))
    kept = run.clients["p"]._state
    assert not kept.unconfirmed
    assert not kept.waiting
