"""How brokers decide on an exchange among themselves (S1 §5.5): bulletins, motions, and what each may refuse."""

from itertools import combinations, pairwise

import msgspec
import pytest

from pleach.core.effects import Send
from pleach.core.messages import BrokerOnPath, Bulletin, Motion, RequestExchange, RequestSwap, decode, encode
from pleach.core.optimise.cost import Costs, Flow
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.core.optimise.settling import INTERVAL_MAX
from pleach.core.overlay.choice import Circumstances
from pleach.core.overlay.plans.topology import Topology, link
from support.optimise.councils import CAUSAL, EVERY, Assembly

LINE = ["a", "b", "c", "d", "e"]
LATER = 10.0  # old enough ledgers, and events that are everywhere
CONDUCT = CouncilSettings(every=EVERY, window=10 * EVERY, radius=3)


def assembly(conduct=CONDUCT, brokers=LINE, where=CAUSAL, direct=10.0):
    """a – b – c – d – e: every link there could be costs 10, a–d `direct`, every broker 1."""
    pairs = {link(x, y): 10.0 for x, y in combinations(LINE, 2)} | {link("a", "d"): direct}
    return Assembly(Topology.of(pairwise(brokers)), Costs(dict.fromkeys(LINE, 1.0), pairs), conduct, where)


def busy_from_a_to_d(conduct=CONDUCT, events=100, where=CAUSAL):
    """All events go from a's clients to d's."""
    made = assembly(conduct, where=where)
    made.publish(Flow("a", frozenset("d")), range(events), at=5.0)
    made.round(1.0)  # everybody has heard of everybody
    made.said.clear()
    return made


def judgements(made):
    return [turn.judgement for turn in made.turns]


def requests(made):
    return [turn.request for turn in made.turns if turn.request]


def test_a_bulletin_goes_as_far_as_the_radius_and_no_broker_twice():
    made = assembly()
    made.round(1.0, ["a"])
    assert [to for _, to, _ in made.said] == ["b", "c", "d"]
    last = made.said[-1][2]
    assert [each.broker for each in last.way] == ["a", "b", "c"]
    assert last.links == [10.0, 10.0]


def test_a_link_that_saves_is_decided_for_at_the_end_of_the_way():
    """Every event costs 4 + 30 over b and c, and 2 + 10 directly."""
    made = busy_from_a_to_d()
    made.round(LATER)
    best = judgements(made)[0]
    assert best.verdict is ImproveVerdict.IMPROVE
    assert best.add == ("a", "d")
    assert best.share_saved == pytest.approx(22 / 34)
    assert requests(made)


def test_a_link_dearer_than_each_of_the_way_is_asked_for_where_it_costs_less_than_all_of_them():
    """One of the evaluations is enough; the ledgers decide."""
    made = assembly(direct=11.0)
    made.publish(Flow("a", frozenset("d")), range(100), at=5.0)
    made.round(1.0)
    made.round(LATER)
    assert {each.add for each in judgements(made) if each.verdict is ImproveVerdict.IMPROVE} == {("a", "d")}


def test_the_exchange_begins_at_the_broker_that_decided():
    made = busy_from_a_to_d()
    made.round(LATER, ["a"])  # d hears of a, and moves; a decides
    [turn] = [turn for turn in made.turns if turn.request]
    assert turn.request.begins_at == "a"
    assert turn.request.path == ["a", "b", "c", "d"]
    assert not turn.request.is_patient


@pytest.mark.parametrize(
    ("flows", "asked"),
    [
        ([("a", "c"), ("c", "b")], RequestSwap),  # a decides, and gives up a–b
        ([("a", "c"), ("a", "b")], RequestExchange),  # a–b is needed: the link at the other end goes
    ],
)
def test_one_swap_does_it_where_the_decider_gives_up_its_own_link(flows, asked):
    made = assembly(brokers=["a", "b", "c"])
    for publisher, subscriber in flows:
        made.publish(Flow(publisher, frozenset(subscriber)), range(100), at=5.0)
    made.round(1.0)
    made.round(LATER, ["a"])
    assert [type(each) for each in requests(made)] == [asked]


@pytest.mark.parametrize(("rounds", "is_asked"), [(INTERVAL_MAX, True), (INTERVAL_MAX + 2, False)])
def test_what_a_broker_on_the_way_said_long_ago_does_not_count(rounds, is_asked):
    """b, c and d have said nothing since the first round; d hears of a, and knows of b and c from then."""
    made = busy_from_a_to_d(msgspec.structs.replace(CONDUCT, window=30 * EVERY))
    made.round(1.0 + rounds * EVERY, ["a"])
    assert bool(made.councillors["d"].tally["motions"]) is is_asked


def test_a_dry_run_says_what_it_would_do_and_asks_for_nothing():
    made = busy_from_a_to_d(msgspec.structs.replace(CONDUCT, dry_run=True))
    made.round(LATER)
    assert judgements(made)[0].is_worth_it
    assert not requests(made)


def test_where_several_swaps_are_recommended_nothing_is_asked_for():
    made = busy_from_a_to_d(where=Circumstances("causal", is_hierarchical=True))
    made.round(LATER)
    assert judgements(made)[0].verdict is ImproveVerdict.SWAPS
    assert not requests(made)


def test_few_events_may_be_chance():
    made = busy_from_a_to_d(events=8)
    made.round(LATER)
    assert judgements(made)[0].verdict is ImproveVerdict.CHANCE


def test_who_saves_too_little_is_left_alone():
    made = busy_from_a_to_d(msgspec.structs.replace(CONDUCT, saving_min=0.7))
    made.round(LATER)
    assert judgements(made)[0].verdict is ImproveVerdict.LITTLE


def test_events_that_all_brokers_of_the_way_want_change_nothing():
    made = assembly()
    made.publish(Flow("a", frozenset("bcd")), range(100), at=5.0)
    made.round(1.0)
    made.round(LATER)
    assert not requests(made)


@pytest.mark.parametrize("broker", ["a", "b", "c", "d"])
def test_a_broker_that_takes_part_in_a_change_lets_motions_rest(broker):
    made = busy_from_a_to_d()
    made.grounds[broker].is_busy = True
    made.round(LATER)
    assert not [each for each in judgements(made) if each.add == ("a", "d")]
    assert made.councillors[broker].tally["busy"]


@pytest.mark.parametrize("broker", ["a", "b", "c", "d"])
def test_a_broker_whose_tree_has_changed_begins_anew(broker):
    """Its ledger knows nothing of the events before, so that no motion speaks of them."""
    made = busy_from_a_to_d()
    made.councillors[broker].changed(LATER - 0.5)
    made.round(LATER)
    assert not [each for each in judgements(made) if each.add == ("a", "d")]


def test_a_motion_that_speaks_of_events_before_a_change_rests():
    made = busy_from_a_to_d()
    sends = made.councillors["d"].tick(LATER)
    [motion] = _motions_of(made, sends, LATER)
    made.councillors["b"].changed(LATER)
    turn = made.councillors["b"].handle("a", motion.message, now=LATER + 0.1)
    assert turn == ([], None, None)
    assert made.councillors["b"].tally["changed"] == 1


def _motions_of(made, sends, now):
    """What a says when d's bulletin has come to it."""
    sender = "d"
    for to in ("c", "b", "a"):
        bulletin = next(each.message for each in sends if each.to == to and isinstance(each.message, Bulletin))
        sends = made.councillors[to].handle(sender, bulletin, now=now).sends
        sender = to
    return [each for each in sends if isinstance(each.message, Motion)]


def test_no_broker_takes_part_more_often_than_it_may():
    made = busy_from_a_to_d(msgspec.structs.replace(CONDUCT, actions_per_minute_max=1))
    made.councillors["b"].changed(1.5)
    made.publish(Flow("a", frozenset("d")), range(200, 300), at=5.0)
    made.round(LATER)
    assert not [each for each in judgements(made) if each.add == ("a", "d")]
    assert made.councillors["b"].tally["too often"]


def test_who_has_neighbours_enough_gives_one_up_for_the_new_one():
    """With b at its limit of 2 a link a–d may go where it stands; with a at its own, a–b has to."""
    made = busy_from_a_to_d(msgspec.structs.replace(CONDUCT, degree_max=2))
    made.publish(Flow("a", frozenset("b")), range(100), at=5.0)
    made.publish(Flow("d", frozenset("e")), range(100), at=5.0)
    made.round(LATER)
    best = next(each for each in judgements(made) if each.add == ("a", "d"))
    assert best.remove == ("c", "d")  # d has c and e; a has b only, and keeps it


def test_nothing_is_guessed():
    """c has not measured how far d is: d's bulletins end there."""
    made = assembly()
    made.grounds["c"].unknown.add("d")
    made.round(1.0, ["d"])
    assert {to for _, to, _ in made.said} == {"c", "e"}


def test_who_is_too_far_to_be_measured_is_not_moved_for():
    made = busy_from_a_to_d()
    made.grounds["a"].unknown.add("d")
    made.grounds["d"].unknown.add("a")
    made.round(LATER)
    assert not [each for each in judgements(made) if each.add == ("a", "d")]


def test_who_moved_for_a_link_waits_twice_as_long_each_time():
    made = busy_from_a_to_d(msgspec.structs.replace(CONDUCT, saving_min=0.9, window=1_000.0))
    for n in range(100):
        made.round(LATER + n * 2 * EVERY)
    moved = [m for who, _, m in made.said if who == "a" and isinstance(m, Motion) and m.way[-1].broker == "d"]
    assert 3 <= len(moved) <= 12  # after 1, 2, 4, … 32 rounds of 200; without patience after each bulletin of d


def test_at_rest_bulletins_become_rarer_and_a_change_brings_them_back():
    made = assembly()
    councillor = made.councillors["a"]
    at = [n * 0.5 for n in range(1_000) if councillor.tick(n * 0.5)]
    late = [b - a for a, b in pairwise(at[-10:])]
    assert min(late) >= 0.5 * INTERVAL_MAX * EVERY
    assert max(late) <= 1.5 * INTERVAL_MAX * EVERY + 0.5
    councillor.changed(500.0)
    assert councillor.tick(500.0 + EVERY)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: {"links": [1.0]},
        lambda b: {"summary": b.summary[:-1]},
        lambda b: {"way": [*b.way, b.way[0]]},
        lambda b: {"way": [BrokerOnPath("b", 1.0, 1, 1.0, 0)], "links": []},
        lambda b: {"way": [BrokerOnPath("x", 1.0, 1, 1.0, 0)], "links": []},
    ],
)
def test_a_bulletin_that_makes_no_sense_is_ignored(spoil):
    made = assembly()
    [send] = made.councillors["a"].tick(1.0)
    wrong = msgspec.structs.replace(send.message, **spoil(send.message))
    assert made.councillors["b"].handle("a", wrong, now=1.0).sends == []
    assert made.councillors["b"].handle("a", send.message, now=1.0).sends == [
        Send("c", msgspec.structs.replace(send.message, way=[*send.message.way, _standing(made, "b")], links=[10.0]))
    ]


def _standing(made, broker):
    return BrokerOnPath(broker, 1.0, len(made.grounds[broker].neighbours), 1.0, 0)


def test_what_is_no_neighbour_is_not_heard():
    made = assembly()
    [send] = made.councillors["a"].tick(1.0)
    assert made.councillors["c"].handle("a", send.message, now=1.0).sends == []


def test_what_councillors_say_travels():
    made = busy_from_a_to_d()
    made.round(LATER)
    kinds = {type(message) for _, _, message in made.said}
    assert kinds == {Bulletin, Motion}
    for _, _, message in made.said:
        assert decode(encode(message)) == message


def test_a_level_beyond_all_levels_is_no_message():
    with pytest.raises(msgspec.ValidationError):
        decode(encode(Motion([BrokerOnPath("a", 1.0, 1, 1.0, 0)], [], 1.0, 99, {})))
