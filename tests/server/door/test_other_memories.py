"""Rule 6 of admission: which broker of a neighbour's name is let in that does not have its memory."""

import pytest

from pleach.core.links.frames import ByeReason, Data, Hello, LinkTerms, Memory
from pleach.core.messages import Lock, RequestSwap, encode
from pleach.server.http.status import status, unready
from pleach.server.links import Port
from support.live.timed_node import Wire, in_world, settled

EPOCH = 5


def hello(epoch, memory, name="a"):
    return Hello(name, epoch, 0, 0, 1, terms=LinkTerms(memory=memory))


def come(world, epoch, memory, name="a"):
    wire = Wire()
    world.node.accept(wire, hello(epoch, memory, name), Port.PEERS)
    return wire


def is_let_in(world, former, newcomer, *, is_away=True):
    wire = come(world, EPOCH, former)
    if is_away:
        world.node.lost("a", wire)
    byes = come(world, EPOCH + 1, newcomer).byes()
    assert not byes or byes[0].why is ByeReason.REPLACED
    return not byes


LET_IN = {
    (Memory.PROCESS, Memory.PROCESS): True,
    (Memory.PROCESS, Memory.REPLACEMENT): True,
    (Memory.PROCESS, Memory.UNTOLD): True,
    (Memory.PROCESS, Memory.DIRECTORY): True,
    (Memory.DIRECTORY, Memory.PROCESS): False,
    (Memory.DIRECTORY, Memory.DIRECTORY): False,
    (Memory.DIRECTORY, Memory.REPLACEMENT): True,
    (Memory.DIRECTORY, Memory.UNTOLD): True,
    (Memory.REPLACEMENT, Memory.PROCESS): False,
    (Memory.REPLACEMENT, Memory.DIRECTORY): False,
    (Memory.REPLACEMENT, Memory.REPLACEMENT): True,
    (Memory.UNTOLD, Memory.PROCESS): True,
    (Memory.UNTOLD, Memory.DIRECTORY): False,
}


@pytest.mark.parametrize(("former", "newcomer"), LET_IN)
def test_who_comes_in_while_the_former_one_is_away(former, newcomer):
    async def scenario(world):
        assert is_let_in(world, former, newcomer) is LET_IN[former, newcomer]

    in_world(scenario, neighbours=("a",))


def test_the_same_memory_comes_back_whatever_it_is_called():
    async def scenario(world):
        for memory in (Memory.DIRECTORY, Memory.REPLACEMENT, Memory.DIRECTORY, Memory.UNTOLD):
            wire = come(world, EPOCH, memory)
            assert not wire.byes()
            world.node.lost("a", wire)

    in_world(scenario, neighbours=("a",))


def test_an_operator_may_let_it_in_here():
    async def scenario(world):
        world.node.directory.expect("a")
        assert is_let_in(world, Memory.DIRECTORY, Memory.DIRECTORY)

    in_world(scenario, neighbours=("a",))


def test_who_is_no_neighbour_may_have_begun_anew():
    async def scenario(world):
        world.node.directory.expect("z")
        world.node.lost("z", come(world, EPOCH, Memory.DIRECTORY, "z"))
        world.node.directory._expected.clear()
        world.node.directory.expect("z")
        assert not come(world, EPOCH + 1, Memory.DIRECTORY, "z").byes()

    in_world(scenario)


async def swap_with_former_neighbour(world, begin):
    """c was met here long ago, has been replaced since, as its neighbours know, and is to be linked by a swap."""
    node = world.node
    node.directory.expect("c")
    node.lost("c", come(world, EPOCH, Memory.DIRECTORY, "c"))
    node.directory._expected.clear()
    begin(node, come(world, EPOCH, Memory.DIRECTORY))
    await settled(node)
    assert node.broker.operation
    return come(world, EPOCH + 1, Memory.DIRECTORY, "c").byes()


def test_who_was_replaced_elsewhere_may_be_linked_here_again_by_a_swap_that_begins_here():
    async def scenario(world):
        begin = lambda node, _: node.operations.request(RequestSwap("1", "b", "a", "c"))  # noqa: E731
        assert not await swap_with_former_neighbour(world, begin)

    in_world(scenario, neighbours=("a",))


def test_and_by_a_swap_that_ends_here():
    async def scenario(world):
        lock = Data(1, encode(Lock("1~1", "c", "a", "b", "127.0.0.1:1")))
        assert not await swap_with_former_neighbour(world, lambda node, wire: node.receive("a", wire, lock))

    in_world(scenario, neighbours=("a",))


def test_whoever_answers_with_another_memory_is_refused_too():
    async def scenario(world):
        node = world.node
        node.lost("a", come(world, EPOCH, Memory.DIRECTORY))
        wire = Wire()
        node.dialled("a", wire)
        node.receive("a", wire, hello(EPOCH + 1, Memory.DIRECTORY))
        await settled(node)
        (bye,) = wire.byes()
        assert bye.why is ByeReason.REPLACED
        assert node.endpoint.sessions["a"].peer_epoch == EPOCH
        assert any("another a" in reason for reason in unready(node))

    in_world(scenario, neighbours=("a",))


def test_nothing_is_said_of_a_neighbour_that_is_connected():
    async def scenario(world):
        assert not is_let_in(world, Memory.DIRECTORY, Memory.DIRECTORY, is_away=False)
        await settled(world.node)
        assert world.node.links.is_up("a")
        assert status(world.node)["refused"] == {}
        assert unready(world.node) == []

    in_world(scenario, neighbours=("a",))
