"""What a broker keeps of its neighbours' neighbours, and of who stands in for whom."""

from pleach.core.broker import Broker
from pleach.core.messages import NeighbourAddress, NeighbourReport, StandInAddress
from pleach.core.overlay.neighbour_info import NeighbourInfo
from pleach.core.routing.router import RoutingConfig


def broker():
    made = Broker("n", RoutingConfig(), neighbours=["x"], machines=[NeighbourInfo])
    return made, made.machine(NeighbourInfo)


def kin(**stands):
    others = {"n": NeighbourAddress(peer="h:1"), "m": NeighbourAddress(admin="h:2")}
    return NeighbourReport(NeighbourAddress("h:3", "h:4", "h:5"), others, "m", {}, stands)


def test_what_a_neighbour_says_last_is_kept_through_a_restart():
    made, neighbour_info = broker()
    assert neighbour_info.of("x") is None
    assert made.handle("x", kin(), now=0.0) == []
    made.handle("x", kin(y=StandInAddress(5, "h:6")), now=1.0)
    again, restored = broker()
    again.restore(made.capture())
    assert restored.of("x") == kin(y=StandInAddress(5, "h:6"))
    assert restored.stands == {"y": StandInAddress(5, "h:6")}


def test_a_stand_in_is_known_by_its_newest_life():
    made, neighbour_info = broker()
    for stand in (StandInAddress(5, "h:6"), StandInAddress(7, "h:7"), StandInAddress(6, "h:8")):
        made.handle("x", kin(y=stand), now=0.0)
    assert neighbour_info.stands == {"y": StandInAddress(7, "h:7")}


def test_nothing_is_said_of_those_who_are_no_neighbours_any_more():
    made, neighbour_info = broker()
    made.handle("x", kin(), now=0.0)
    made.disconnect("x")
    assert neighbour_info.of("x") is None
