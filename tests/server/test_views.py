"""Views between brokers: which of two of one name is let in, and what the other one is told."""

import pytest

from pleach.core.links.frames import BROKER, CLIENT, Bye, ByeReason, Hello
from pleach.core.standby.views import View
from pleach.server.door.admission import malformed
from pleach.server.links import Port
from pleach.server.node import EXIT_FENCED, BrokerNode
from pleach.server.settings import BrokerSettings
from pleach.server.storage.store import Store
from support.live.timed_node import Wire, in_world, settled

EPOCH = 5


def hello(view, *, epoch=EPOCH, name="a", role=BROKER, **more):
    return Hello(name, epoch, 0, 0, 1, role=role, view=view, **more)


def come(world, view, **more):
    wire = Wire()
    world.node.accept(wire, hello(view, **more), Port.PEERS)
    return wire


def fenced(wire):
    return [(bye.is_at_work, bye.view) for bye in wire.byes() if bye.why is ByeReason.FENCED]


def test_a_newer_view_replaces_an_older_one_that_is_up():
    async def scenario(world):
        old = come(world, 1)
        await settled(world.node)
        new = come(world, 2)
        await settled(world.node)
        assert fenced(old) == [(True, 2)]
        assert world.node.links["a"].wire is new
        assert world.node.links.is_up("a")
        assert world.node.endpoint.sessions["a"].peer_view == 2

    in_world(scenario, neighbours=("a",))


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1])
def test_an_older_view_is_fenced_whatever_its_epoch(epoch):
    async def scenario(world):
        come(world, 2)
        await settled(world.node)
        assert fenced(come(world, 1, epoch=epoch)) == [(True, 2)]
        assert fenced(come(world, 0, epoch=epoch)) == [(True, 2)]
        assert world.node.links.is_up("a")

    in_world(scenario, neighbours=("a",))


def test_an_operator_may_let_a_broker_in_whose_copies_are_all_lost():
    async def scenario(world):
        node = world.node
        node.lost("a", come(world, 2))
        node.directory.expect("a")
        assert not come(world, 1, epoch=EPOCH + 1).byes()
        await settled(node)
        assert node.directory.newest("a") == (EPOCH + 1, 1)
        assert fenced(come(world, 2)) == [(True, 0)]  # the epoch is older

    in_world(scenario, neighbours=("a",))


def test_a_broker_that_has_left_may_begin_anew():
    async def scenario(world):
        node = world.node
        node.directory.expect("z")
        node.lost("z", come(world, 9, name="z"))
        assert not come(world, 1, name="z", epoch=EPOCH + 1).byes()

    in_world(scenario)


def test_it_is_no_proof_where_the_newer_one_is_away():
    async def scenario(world):
        new = come(world, 2)
        await settled(world.node)
        world.node.lost("a", new)
        assert fenced(come(world, 1)) == [(False, 2)]

    in_world(scenario, neighbours=("a",))


def test_the_view_is_known_after_a_restart(tmp_path):
    async def first(world):
        come(world, 2)
        await settled(world.node)

    async def second(world):
        assert fenced(come(world, 1)) == [(False, 2)]
        assert not come(world, 2).byes()

    for scenario in (first, second):
        store = Store.open(tmp_path, "b", epoch=1)
        in_world(scenario, store, neighbours=("a",))
        store.close()


def test_where_both_dial_the_newer_view_stays_whoever_dialled():
    async def scenario(world):
        node, dialled = world.node, Wire()
        node.dialled("c", dialled)
        node.receive("c", dialled, hello(1, name="c"))
        await settled(node)
        assert come(world, 1, name="c").byes()[0].why is ByeReason.LEAVING  # b < c
        new = come(world, 2, name="c")
        assert node.links["c"].wire is new
        assert fenced(dialled) == [(True, 2)]

    in_world(scenario, neighbours=("c",))


def test_whoever_answers_in_an_older_view_is_fenced_as_well():
    async def scenario(world):
        node = world.node
        node.lost("a", come(world, 3))
        dialled = Wire()
        node.dialled("a", dialled)
        node.receive("a", dialled, hello(2))
        await settled(node)
        assert fenced(dialled) == [(False, 3)]

    in_world(scenario, neighbours=("a",))


def test_clients_have_no_views():
    assert malformed(hello(1, role=CLIENT), Port.CLIENTS) == "malformed Hello: only brokers have views"


@pytest.mark.parametrize("port", [Port.PEERS, Port.CLIENTS])
def test_a_broker_with_standbys_says_its_view_to_all(port):
    async def scenario(world):
        world.node.directory.view = View("b", 7, ("b#1",))
        wire = Wire()
        name, role = ("a", BROKER) if port is Port.PEERS else ("s", CLIENT)
        world.node.accept(wire, hello(0, name=name, role=role), port)
        await settled(world.node)
        assert [frame.view for frame in wire.sent if isinstance(frame, Hello)] == [7]

    in_world(scenario, neighbours=("a",))


class Ends:
    def __init__(self):
        self.codes = []
        self.views = []
        settings = BrokerSettings("b", peers={"a": "127.0.0.1:1"})
        self.node = BrokerNode(settings, None, 1, clock=lambda: 0.0, on_end=lambda code, _: self.codes.append(code))

    async def told(self, **more):
        wire = Wire()
        self.node.dialled("a", wire)
        self.node.receive("a", wire, Bye(ByeReason.FENCED, "a newer one", **more))
        await settled(self.node)


@pytest.mark.parametrize("is_at_work", [False, True])
def test_a_broker_with_standbys_asks_its_members_whether_it_is_overtaken(is_at_work):
    async def scenario(_):
        ends = Ends()
        ends.node.directory.view, ends.node.on_overtaken = View("b", 2, ("b#1",)), ends.views.append
        await ends.told(is_at_work=is_at_work, view=3)
        assert (ends.codes, ends.views) == ([], [3])
        await ends.told(view=2)  # its own
        assert ends.views == [3]

    in_world(scenario)


def test_a_broker_without_standbys_ends_where_it_is_proven():
    async def scenario(_):
        ends = Ends()
        await ends.told(view=3)
        assert not ends.codes
        await ends.told(view=3, is_at_work=True)
        assert ends.codes == [EXIT_FENCED]

    in_world(scenario)
