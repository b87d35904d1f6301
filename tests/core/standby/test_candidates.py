"""The choice of machines for copies: what counts, in which order, and that brokers do not all choose the same."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.standby.candidates import BestCandidates, KnownMachine, Preference, best, candidates


def names(found):
    return [each.machine for each in found]


def known(*machines, zone="", brokers=()):
    return [KnownMachine(each, f"{each}:1", zone, brokers) for each in machines]


def test_the_own_machine_is_none_and_named_ones_come_first_in_their_order():
    machines = known("a", "b", "c", "d")
    assert names(candidates("x", "a", machines, Preference(named=("d:1", "c"))))[:2] == ["d", "c"]
    assert "a" not in names(candidates("x", "a", machines, Preference()))


def test_the_owner_of_the_key_comes_before_neighbours_in_another_zone_and_those_before_others():
    machines = [
        KnownMachine("far", "", "z2", ("f",)),
        KnownMachine("near", "", "z1", ("n",)),
        KnownMachine("near-elsewhere", "", "z2", ("e",)),
        KnownMachine("owner", "", "z1", ("o",)),
        KnownMachine("here", "", "z1", ()),
    ]
    preference = Preference("z1", ("n", "e"), owner="o")
    assert names(candidates("x", "own", machines, preference)) == ["owner", "near-elsewhere", "near", "far", "here"]


def test_machines_with_several_brokers_come_last_among_equals():
    machines = [*known("full", brokers=("a", "b")), *known("free", "one", brokers=("c",))]
    for broker in map(str, range(20)):
        assert names(candidates(broker, "own", machines, Preference()))[-1] == "full"


def test_brokers_spread_over_equal_machines():
    machines = known(*(f"m{n}" for n in range(6)))
    first = Counter(names(candidates(f"b{n}", "own", machines, Preference()))[0] for n in range(300))
    assert len(first) == 6
    assert max(first.values()) < 120


def test_few_are_chosen_from():
    assert len(best(candidates("x", "own", known(*"abcdefgh"), Preference()), 2)) == 4


MACHINES = [f"m{number}" for number in range(9)]
CHANGES = st.tuples(
    st.sampled_from(MACHINES),
    st.none() | st.tuples(st.sampled_from("xy"), st.lists(st.sampled_from("npqr"), max_size=2)),
)


@given(st.lists(CHANGES, max_size=40), st.integers(2, 3))
def test_the_best_stay_the_best_while_they_bear_what_changes(changes, copies):
    preference = Preference(neighbours=("n", "p"))
    there = {}
    kept = BestCandidates("b", "m0", there.values(), preference, copies)
    for machine, told in changes:
        after = KnownMachine(machine, told[0], "", tuple(told[1])) if told else None
        there = {name: each for name, each in {**there, machine: after}.items() if each is not None}
        if not kept.bear({machine: after}):
            kept = BestCandidates("b", "m0", there.values(), preference, copies)
        assert kept.best == best(candidates("b", "m0", there.values(), preference), copies)


def test_a_machine_that_is_no_better_than_the_best_leaves_them_as_they_are():
    machines = known(*MACHINES)
    kept = BestCandidates("b", "own", machines, Preference(), 2)
    last = candidates("b", "own", machines, Preference())[-1].machine
    assert kept.bear({last: None})
    assert kept.bear({last: KnownMachine(last, "elsewhere:1")})
    assert not kept.bear({kept.best[0].machine: None})
