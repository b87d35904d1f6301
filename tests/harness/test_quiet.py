"""When a network of processes counts as at rest."""

import pytest

from pleach.harness.run import POLLS, Quiet


def status(queued=0, up=True, matches=5):
    counters = {"publishes": 0, "matches": matches, "deliveries": 0}
    links = {"b": {"queued": queued, "up": up}, "c": {"queued": 0, "up": True}}
    return [{"name": "a", "neighbours": links, "clients": {}, "counters": counters}]


def polls(quiet, looks, records=1, unrest=()):
    for look in looks:
        quiet.look(look, records, unrest)
    return quiet.is_reached


@pytest.mark.parametrize("is_leased", [False, True])
def test_nothing_queued_and_nothing_moved_is_rest(is_leased):
    quiet = Quiet(is_leased=is_leased)
    assert not polls(quiet, [status()] * POLLS), "the first look has nothing to compare with"
    assert polls(quiet, [status()])


@pytest.mark.parametrize("is_leased", [False, True])
@pytest.mark.parametrize(
    ("looks", "unrest"),
    [
        ([status(queued=1)] * 9, ()),
        ([status(up=False)] * 9, ()),
        ([status(matches=n) for n in range(9)], ()),
        ([status()] * 9, ["broker b is down"]),
    ],
)
def test_anything_else_is_not(is_leased, looks, unrest):
    quiet = Quiet(is_leased=is_leased)
    assert not polls(quiet, looks, unrest=unrest)
    assert quiet.unrest or looks[0] != looks[1]


BUSY = [status(), *[status(queued=1)] * 9]  # renewals


def test_with_leases_a_link_need_be_empty_once_since_the_last_movement():
    assert polls(Quiet(is_leased=True), BUSY)
    assert not polls(Quiet(is_leased=False), BUSY)


def test_what_moves_later_has_to_come_to_rest_again():
    quiet = Quiet(is_leased=True)
    assert not polls(quiet, [status(), *[status(queued=1, matches=6)] * 9])
    assert polls(quiet, [status(matches=6), *[status(queued=1, matches=6)] * POLLS])
