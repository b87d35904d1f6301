"""Who may read what waits for a client, beside its own connection."""

from pleach.core.links.frames import Hello
from pleach.core.links.reading import READER
from pleach.server import readers
from pleach.server.readers import Readers
from support.live.timed_node import SUBSCRIBED, Wire, in_world

EPOCH = 5


def read(world):
    """The wire of a reader for s, and why it is refused."""
    wire, token = Wire(), world.node.directory.tokens.of("s", EPOCH)
    hello = Hello("s", EPOCH, 1, 0, 1, role=READER, token=token)
    return wire, world.node.features[Readers].admit(wire, hello, world.now)


def test_no_more_readers_come_than_there_is_room_for_and_the_others_are_told(monkeypatch):
    monkeypatch.setattr(readers, "READERS_MAX", 2)

    async def scenario(world):
        await world.visit("s", *SUBSCRIBED, epoch=EPOCH)
        first, second, third = (read(world) for _ in range(3))
        assert (first[1], second[1]) == ("", "")
        assert "b has 2 readers" in third[1]
        assert [bye.reason for bye in third[0].byes()] == [third[1]]
        world.node.features[Readers].lost(first[0])
        assert read(world)[1] == ""

    in_world(scenario)
