"""S1 Theorem 1, tried to break: the period with every message at its worst, and what the printed rules get wrong.

The period of S1, π > ρ + 2d·δmax, is long enough if its d counts the client's own link. The rules are not right: what
is said in withdrawing, and on cycles before a switch, loses live subscriptions and brings back dead ones.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.core.effects import SetTimer
from pleach.core.events.language import parse_filter
from pleach.core.messages import Layer, Parity
from pleach.core.routing.entries import Entry
from pleach.core.stabilise.lease_bounds import Delays
from pleach.core.stabilise.rebuild import SWITCH, Rebuild
from pleach.core.stabilise.rebuild_bounds import RebuildPeriods, check_rounds, rebuilt_within, round_min
from pleach.errors import LeaseError, ScenarioError
from pleach.scenario.load import parse_scenario
from pleach.scenario.stabilise_settings import CYCLIC_BROKERS_MAX, delays_of, period_min_of, stabilisation_of
from pleach.sim.run import ScenarioRun
from pleach.trace import Rule, judge
from support.stabilise.damaged_networks import KINDS
from support.stabilise.rebuild_invariants import flaws_of_twins

# The formulas ---------------------------------------------------------------------------------------------------

DELAYS = Delays(0.01, 0.05, 6)


@pytest.mark.parametrize(
    ("policy", "advertisements", "cyclic", "least", "within"),
    [
        ("covering", False, False, 1.0 + 0.5 + 0.04, 4.55),  # S1: 1 + 0.6 and 4.3, with d = 6
        ("covering", True, False, 1.0 + 0.75 + 0.04, 4.55),  # S1 (3.11): 8.6
        ("covering", False, True, 1.0 + 0.5 + 0.04, 6.25),
        ("flooding", False, False, 1.0 + 0.25 + 0.04, 4.55),
        ("flooding", True, False, 1.0 + 0.25 + 0.04, 4.55),
    ],
)
def test_every_way_to_rebuild_has_its_bounds(policy, advertisements, cyclic, least, within):
    rounds = RebuildPeriods(refresh=1.0, period=2.0, policy=policy, advertisements=advertisements, cyclic=cyclic)
    assert round_min(rounds, DELAYS) == pytest.approx(least)
    assert rebuilt_within(rounds, DELAYS) == pytest.approx(within)


def test_on_a_cycle_a_short_refresh_does_not_shorten_the_round_below_what_saying_again_takes():
    rounds = RebuildPeriods(refresh=0.01, period=2.0, policy="simple", cyclic=True)
    assert round_min(rounds, DELAYS) == pytest.approx(0.5 + 0.1)


def test_a_period_that_is_just_long_enough_is_not():
    rounds = RebuildPeriods(refresh=1.0, period=1.54, policy="covering")
    check_rounds(msgspec.structs.replace(rounds, period=1.541), DELAYS)
    with pytest.raises(LeaseError, match=r"more than 1.54 s is wanted \(refresh 1 \+ 10 links × 0.05"):
        check_rounds(rounds, DELAYS)


# In scenarios -----------------------------------------------------------------------------------------------------

SCENARIO = """
name = "x"
routing = "covering"
links = [["a", "b"], ["b", "c"]{links}]
duration = 9.0
{more}
[latency]
default = 0.1
[stabilise]
refresh = 1.0
{stabilise}
"""
CYCLIC = 'kind = "rebuild"\nperiod = 2.0\ncyclic = true'


def scenario(stabilise='kind = "rebuild"\nperiod = 2.0', more="", links=""):
    return parse_scenario(SCENARIO.format(stabilise=stabilise, more=more, links=links), file="x.toml")


def test_a_cycle_is_as_long_as_its_shortest_ways():
    assert delays_of(scenario()).hops == 3
    assert delays_of(scenario(CYCLIC, 'ordering = "fifo"', ', ["c", "a"]')).hops == 2


def test_a_cyclic_network_has_at_most_as_many_brokers_as_tables_fit():
    chain = "".join(f', ["c", "d{i}"]' for i in range(CYCLIC_BROKERS_MAX - 3))
    assert scenario(CYCLIC, 'ordering = "fifo"', chain)
    with pytest.raises(ScenarioError, match="101 brokers on cycles"):
        scenario(CYCLIC, 'ordering = "fifo"', chain + ', ["c", "e"]')


@pytest.mark.parametrize(
    ("stabilise", "more", "links", "line", "says"),
    [
        ('kind = "rebuild"\nperiod = 1.3', "", "", 12, "more than 1.4 s is wanted"),
        ('kind = "rebuild"\nperiod = 2.0\nrenewal = "relayed"', "", "", 9, "`renewal` and `variant` are of leases"),
        ('kind = "rebuild"\nperiod = 2.0', "", ', ["c", "a"]', 4, "link c-a closes a cycle"),
        ('kind = "leases"\nperiod = 2.0\ncyclic = true', "", ', ["c", "a"]', 13, "only rebuilt tables can be `cyclic`"),
        (CYCLIC, "", ', ["c", "a"]', 13, 'set ordering = "fifo"'),
        (CYCLIC, 'ordering = "fifo"', ', ["b", "a"]', 4, "link b-a is there twice"),
        (CYCLIC, 'ordering = "fifo"', ', ["a", "a"]', 4, "joins a broker to itself"),
        (CYCLIC, "hierarchical = true", "", 6, "cycles go with peer-to-peer routing"),
        (
            'kind = "rebuild"\nperiod = 2.0',
            "steps = [{ at = 1.0, do = 'swap', brokers = ['a', 'b', 'c'] }]",
            "",
            11,
            "over links that stay",
        ),
    ],
)
def test_what_does_not_fit_is_refused(stabilise, more, links, line, says):
    with pytest.raises(ScenarioError, match=says) as error:
        scenario(stabilise, more, links)
    assert error.value.line == line


# The period, with every message at its worst ------------------------------------------------------------------------

REFRESH, LOW, HIGH, LINKS = 0.5, 0.01, 0.1, 3
ROUND = 3  # the one that is made worst
HURRY = 1e-6
CHAIN = f"""
name = "chain"
routing = "identity"
duration = 9.0
links = [["b0", "b1"], ["b1", "b2"], ["b2", "b3"]]
latency = {{ default = [{LOW}, {HIGH}] }}
stabilise = {{ kind = "rebuild", refresh = {REFRESH}, period = 8.0 }}
clients = [
  {{ id = "c", broker = "b3", subscribe = ["x > 0"] }},
  {{ id = "p", broker = "b0", publish = {{ every = 0.002, from = 1.0, until = 8.0, attributes = {{ x = 1 }} }} }},
]
"""


def losses_at_worst(period):
    """The switch takes δmax on each link. The client's renewal before it just misses it; the next one comes late.

    The root, where the publisher is, empties its other table π later: whether the subscription is back by then?
    """
    plain = parse_scenario(CHAIN)
    run = ScenarioRun(
        msgspec.structs.replace(plain, stabilise=msgspec.structs.replace(plain.stabilise, period=period)), 1, KINDS
    )
    switched = period * ROUND + LINKS * HIGH  # at the far end
    just_before = switched - LOW - HURRY
    for ends in plain.links:
        for link in run.sim.links_between(*ends):
            link._draw = lambda: 1.0
    run.sim.links_between("c", "b3")[0]._draw = lambda: float(run.sim.now > just_before + HURRY)
    run.sim.links_between("p", "b0")[0]._draw = lambda: 0.0  # so that some event comes at any moment
    run.sim.perform("b0", [SetTimer(SWITCH, period, is_upkeep=True)])
    first = just_before % REFRESH
    run.sim.at(0.0, lambda: run.sim.perform("c", [SetTimer("renew", first, is_upkeep=True)]))
    return judge(run.finish().records).count(Rule.LOST)


def test_a_round_above_the_bound_is_long_enough():
    least = period_min_of(parse_scenario(CHAIN))
    assert least == pytest.approx(REFRESH + 2 * LINKS * HIGH + (HIGH - LOW))
    assert not losses_at_worst(least + 0.001)


@pytest.mark.parametrize("below", [0.005, HIGH - LOW - 0.001])
def test_a_round_below_it_is_not_even_where_theorem_1_without_the_clients_links_is_satisfied(below):
    period = period_min_of(parse_scenario(CHAIN)) - below
    assert period > REFRESH + 2 * LINKS * HIGH
    assert losses_at_worst(period)


# What the printed rules get wrong --------------------------------------------------------------------------------

PAIR = """
name = "pair"
routing = "{routing}"
duration = {duration}
links = [["a", "b"]]
latency = {{ default = 0.01 }}
stabilise = {{ kind = "{kind}", refresh = 1.0, period = 2.0 }}
clients = [
  {{ id = "c1", broker = "b", subscribe = ["x > 0"] }},
  {{ id = "c2", broker = "b"{second} }},
  {{ id = "p", broker = "a", publish = {{ every = 0.017, from = 1.0, attributes = {{ x = 1 }} }} }},
]
steps = [{{ at = {at}, do = "unsubscribe", client = "c1", filter = "x > 0" }}]
"""


def pair(kind, routing, at, second="", duration=9.0, renewals=(0.1, 0.6)):
    """Rounds begin at 2, 4, 6, …; c1 renews soon after, c2 later."""
    text = PAIR.format(kind=kind, routing=routing, at=at, second=second, duration=duration)
    run = ScenarioRun(parse_scenario(text), 1, KINDS)
    run.sim.perform("a", [SetTimer(SWITCH, 2.0, is_upkeep=True)])
    for client, phase in zip(("c1", "c2"), renewals, strict=True):
        run.sim.at(0.05, lambda c=client, p=phase: run.sim.perform(c, [SetTimer("renew", p - 0.05, is_upkeep=True)]))
    return run


@pytest.mark.parametrize("routing", ["identity", "covering", "merging"])
@pytest.mark.parametrize(("kind", "is_right"), [("rebuild", True), ("rebuild-printed", False)])
def test_a_withdrawal_from_both_tables_loses_events_of_another_subscriber_without_any_fault(routing, kind, is_right):
    """At 4.3 only c1 is in the new table. It goes, and so does the filter, in the printed rules from both tables."""
    run = pair(kind, routing, at=4.3, second=', subscribe = ["x > 0"]')
    verdict = judge(run.finish().records)
    assert verdict.clean is is_right
    assert bool(verdict.count(Rule.LOST)) is not is_right


def ghosts_at_the_bound(run, fault_at):
    """A fault puts a filter that c1's hides into both tables of b. What is wrong when Δ has passed?"""
    run.advance(fault_at)
    for table in run.brokers["b"].router.tables.values():
        hidden = Entry("4/gone/s1", parse_filter("x > 5"))
        assert table.add(Layer.SUBSCRIPTIONS, "c2", hidden, None).sends == []
    run.advance(fault_at + stabilisation_of(run.scenario))
    return flaws_of_twins(run.brokers, run.clients)


@pytest.mark.parametrize(("kind", "is_right"), [("rebuild", True), ("rebuild-printed", False)])
def test_what_the_old_table_says_for_the_new_one_lives_longer_than_theorem_1_allows(kind, is_right):
    """The fault at 3, a round at 4; in it c1's filter goes, and what it hid in the old table is told."""
    run = pair(kind, "covering", at=4.5)
    assert bool(ghosts_at_the_bound(run, 3.0)) is not is_right


def test_the_fence_keeps_out_what_is_said_just_before_a_switch(monkeypatch):
    """c1's filter goes when the root has emptied its table already, and b has not yet: what it hid is told then."""
    assert not ghosts_at_the_bound(pair("rebuild", "covering", at=3.995), 3.0)
    monkeypatch.setattr(Rebuild, "_switch", without_a_fence(Rebuild._switch))
    assert ghosts_at_the_bound(pair("rebuild", "covering", at=3.995), 3.0)


def without_a_fence(switch):
    def mutant(rebuild, parity):
        effects = switch(rebuild, parity)
        rebuild._fenced = {each: set() for each in Parity}
        return effects

    return mutant


TRIANGLE = """
name = "triangle"
routing = "simple"
ordering = "fifo"
duration = 12.0
links = [["r", "a"], ["r", "b"], ["a", "b"]]
stabilise = {{ kind = "{kind}", cyclic = true, refresh = 0.5, period = 2.0 }}
clients = [
  {{ id = "c", broker = "a", subscribe = ["x > 0"] }},
  {{ id = "p", broker = "b", publish = {{ every = 0.017, from = 1.0, attributes = {{ x = 1 }} }} }},
]
[latency]
default = 0.01
"r-b" = 0.3
"""


@pytest.mark.parametrize(("kind", "is_right"), [("rebuild", True), ("rebuild-printed", False)])
def test_on_a_cycle_what_is_said_before_the_switch_comes_is_said_again(kind, is_right):
    """S1 (1c) rests on a tree. Here a hears of the round 0.29 s before b, and its client renews in between."""
    run = ScenarioRun(parse_scenario(TRIANGLE.format(kind=kind)), 1, KINDS)
    run.sim.perform("r", [SetTimer(SWITCH, 2.0, is_upkeep=True)])
    run.sim.at(0.05, lambda: run.sim.perform("c", [SetTimer("renew", 0.05, is_upkeep=True)]))
    verdict = judge(run.finish().records)
    assert verdict.clean is is_right
    assert bool(verdict.count(Rule.LOST)) is not is_right
