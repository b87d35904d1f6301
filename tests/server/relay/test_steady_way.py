"""A way that works answers evenly: one that loses packets answers late, whenever one has to be sent again."""

import asyncio

import pytest

from pleach.server import distances
from pleach.server.distances import Trial, is_steady


@pytest.mark.parametrize(
    ("seconds", "steady"),
    [
        ([0.01, 0.01, 0.01], True),
        ([0.01, 0.08, 0.01], True),  # a busy machine
        ([0.30, 0.35, 0.31], True),  # far away
        ([0.01, 0.21, 0.01], False),  # a packet was sent again
        ([0.30, 0.31, 1.31], False),  # the first one of a connection was
        ([0.01, 0.01], False),  # the third try has failed
        ([], False),
    ],
)
def test_a_way_is_steady_if_all_tries_take_about_as_long(monkeypatch, seconds, steady):
    left = list(seconds)

    async def trial(*_):
        if not left:
            raise TimeoutError
        return Trial(left.pop(0), 0.0)

    monkeypatch.setattr(distances, "_trial", trial)
    assert asyncio.run(is_steady("a", 1, "b", "127.0.0.1:1")) is steady
