"""A neighbour says that it knows more of a broker than the broker does: whom that ends, and whom it does not."""

import pytest

from pleach.core.links.frames import Hello
from pleach.errors import EXIT_OUTDATED
from pleach.server.links import Port
from pleach.server.standby.replication import Replication
from pleach.server.storage.outdated import OUTDATED
from pleach.server.storage.store import Store
from support.live.timed_node import Wire, in_world, settled

THEIRS, OURS = 9, 1  # epochs


def primary(*, is_whole):
    """The part of a broker with standbys that knows whether its copies have confirmed that it leads."""
    role = Replication.__new__(Replication)
    role._is_whole = is_whole
    return role


async def ends_of(world, role=None):
    """The exit codes of a node whose neighbour says twice that it has had 500 payloads of it."""
    node, ends = world.node, []
    node._on_end = lambda code, _: ends.append(code)
    if role is not None:
        node.features._features += (role,)
    for _ in range(2):  # by the first one, the node knows its epoch
        wire = Wire()
        assert not node.accept(wire, Hello("a", THEIRS, OURS, 500, 1), Port.PEERS)
        node.committer.seal()
        node.lost("a", wire)
    return ends


def test_a_broker_in_memory_goes_on():
    async def scenario(world):
        assert await ends_of(world) == []
        await settled(world.node)
        world.come("a", epoch=THEIRS, peer_epoch=OURS, door=Port.PEERS)
        assert world.node.links.is_up("a")

    in_world(scenario, neighbours=("a",))


@pytest.mark.parametrize("is_whole", [None, True, False], ids=["alone", "confirmed", "not heard"])
def test_a_primary_that_may_have_been_replaced_meanwhile_is_not_outdated(tmp_path, is_whole):
    async def scenario(world):
        role = primary(is_whole=is_whole) if is_whole is not None else None
        ends = await ends_of(world, role)
        assert ends == ([] if is_whole is False else [EXIT_OUTDATED])
        assert (tmp_path / OUTDATED).exists() is bool(ends)

    with Store.open(tmp_path, "b", epoch=OURS) as store:
        in_world(scenario, store, neighbours=("a",))


def test_a_directory_that_cannot_be_marked_ends_the_broker_with_the_same_code(tmp_path):
    """A disk that is full, for example."""

    async def scenario(world):
        (tmp_path / OUTDATED).mkdir()
        assert await ends_of(world) == [EXIT_OUTDATED]

    with Store.open(tmp_path, "b", epoch=OURS) as store:
        in_world(scenario, store, neighbours=("a",))
