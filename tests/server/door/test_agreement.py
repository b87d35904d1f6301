"""Neighbours whose settings of the network differ: no link, and both sides say in what they differ."""

import json

import pytest

from pleach.core.links.frames import (
    NETWORK_SETTING_CHARACTERS_MAX,
    NETWORK_SETTINGS_MAX,
    Bye,
    ByeReason,
    FrameReader,
    Hello,
    LinkTerms,
    encode_frame,
)
from pleach.errors import FrameError
from pleach.server.door.agreement import disagreement
from pleach.server.http.status import gauges, status, unready
from pleach.server.links import Port
from pleach.server.metrics import render
from support.live.broker_process import eventually, processes
from support.live.timed_node import Wire, in_world, settled

DIFFERENCES = {
    "routing": ("--routing", "simple"),
    "hierarchical": ("--hierarchical",),
    "advertisements": ("--advertisements",),
    "ordering": ("--ordering", "fifo"),
}


def hello(settings, name="a", epoch=5):
    return Hello(name, epoch, 0, 0, 1, terms=LinkTerms(tuple(settings.items())))


def come(world, settings, **more):
    wire = Wire()
    world.node.accept(wire, hello(settings, **more), Port.PEERS)
    return wire


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_two_processes_that_differ_are_not_ready_and_name_the_difference(tmp_path, difference):
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a")
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}", *DIFFERENCES[difference])
        for broker in (a, b):
            eventually(lambda broker=broker: f"a has {difference} = " in broker.get("/readyz")[1])
            assert broker.get("/readyz")[0] == 503
            (reason,) = broker.status()["refused"].values()
            assert f"a has {difference} = " in reason
            assert 'pleach_link_refused{neighbour="' in broker.get("/metrics")[1]
            assert reason in broker.log()


def test_two_processes_that_agree_again_link(tmp_path):
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a")
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}", "--routing", "simple")
        eventually(lambda: "routing" in b.get("/readyz")[1])
        a.stop()
        a.arguments[-1] = "covering"
        a.start()
        for broker in (a, b):
            eventually(broker.is_ready)
            assert broker.status()["refused"] == {}


def test_whoever_answers_with_other_settings_is_refused_as_well():
    async def scenario(world):
        node, wire = world.node, Wire()
        node.dialled("a", wire)
        node.receive("a", wire, hello({**node.settings.agreed, "routing": "simple"}))
        await settled(node)
        (bye,) = wire.byes()
        assert bye.why is ByeReason.DIFFERENT
        assert "a has routing = simple, b has covering" in bye.reason
        assert not node.links.is_up("a")
        assert any("routing" in reason for reason in unready(node))

    in_world(scenario, neighbours=("a",))


def test_what_only_one_of_them_tells_is_not_compared():
    async def scenario(world):
        agreed = world.node.settings.agreed
        assert not come(world, {}).byes()
        assert not come(world, {**agreed, "of another release": "x"}).byes()
        assert not come(world, {"routing": agreed["routing"]}).byes()

    in_world(scenario, neighbours=("a",))


def test_a_disagreement_is_forgotten_when_the_neighbour_comes_with_equal_settings():
    async def scenario(world):
        node = world.node
        assert come(world, {"ordering": "fifo"}).byes()[0].why is ByeReason.DIFFERENT
        assert status(node)["refused"]
        assert not come(world, node.settings.agreed).byes()
        await settled(node)
        assert status(node)["refused"] == {}
        assert unready(node) == []

    in_world(scenario, neighbours=("a",))


def test_strangers_are_neither_told_nor_noted():
    async def scenario(world):
        (bye,) = come(world, {"routing": "simple"}, name="stranger").byes()
        assert bye.why is ByeReason.REFUSED
        assert "covering" not in bye.reason
        assert status(world.node)["refused"] == {}

    in_world(scenario, neighbours=("a",))


def test_hostile_texts_are_escaped_in_logs_and_metrics():
    async def scenario(world):
        node = world.node
        (bye,) = come(world, {"routing": "x\nERROR forged \x1b[2J"}).byes()
        assert bye.reason.isprintable()
        wire = Wire()
        node.dialled("a", wire)
        node.receive("a", wire, Bye(ByeReason.DIFFERENT, "forged\nline" * 1_000))
        (reason,) = status(node)["refused"].values()
        assert reason.isprintable()
        assert len(reason) <= 2_000
        json.dumps(unready(node))
        assert render(gauges(node), node.counters).count("pleach_link_refused{") == 1

    in_world(scenario, neighbours=("a",))


@pytest.mark.parametrize(
    "settings",
    [
        {f"key {n}": "" for n in range(NETWORK_SETTINGS_MAX + 1)},
        {"routing": "x" * (NETWORK_SETTING_CHARACTERS_MAX + 1)},
        {"x" * (NETWORK_SETTING_CHARACTERS_MAX + 1): ""},
    ],
)
def test_too_much_of_settings_is_no_hello(settings):
    with pytest.raises(FrameError, match="Hello"):
        list(FrameReader().feed(encode_frame(hello(settings))))


def test_both_sides_say_it_in_the_same_words():
    one, other = ("a", {"routing": "simple", "ordering": "fifo"}), ("b", {"routing": "covering", "ordering": "none"})
    said = disagreement(one, other)
    assert said == disagreement(other, one)
    assert said.startswith("a has ordering = fifo, b has none; a has routing = simple, b has covering")
    assert disagreement(one, one) == ""


@pytest.mark.parametrize(("one", "other"), [("none", "leases"), ("leases", "none"), ("rebuild", "rebuild")])
def test_leases_are_added_broker_by_broker(one, other):
    assert disagreement(("a", {"stabilise": one}), ("b", {"stabilise": other})) == ""


@pytest.mark.parametrize("other", ["none", "leases"])
def test_one_who_rebuilds_goes_with_nobody_else(other):
    said = disagreement(("a", {"stabilise": "rebuild"}), ("b", {"stabilise": other}))
    assert said.startswith(f"a has stabilise = rebuild, b has {other}")
