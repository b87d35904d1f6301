"""The choice of machines for copies: what counts, in which order, and that brokers do not all choose the same."""

from collections import Counter

from pleach.core.standby.candidates import KnownMachine, Preference, best, candidates


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
