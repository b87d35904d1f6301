"""What a broker knows of its peers, and what it tells them of what it knows."""

from pleach.core.links.frames import Hello
from support.live.timed_node import in_world

FORMER, LATER = 5, 1_000


def test_a_newer_client_is_told_that_it_has_a_former_epoch_but_not_which():
    """It may be another one who has taken the name."""

    async def scenario(world):
        await world.visit("s", epoch=FORMER)
        newer = await world.visit("s", epoch=LATER)
        told = [frame.peer_epoch for frame in newer.sent if isinstance(frame, Hello)]
        assert 0 < told[0] < LATER
        assert told[0] != FORMER
        assert told[1:] == [LATER]

    in_world(scenario)


def test_a_broker_is_dialled_where_an_operator_has_said_last_that_it_is():
    async def scenario(world):
        directory = world.node.directory
        assert directory.to_dial() == {}
        for address in ("there:1", "elsewhere:1"):
            directory.hint("a", address)
            assert directory.to_dial() == {"a": address}

    in_world(scenario, neighbours=["a"])
