"""What a broker keeps of its neighbours' neighbours."""

from pleach.core.broker import Broker
from pleach.core.messages import NeighbourAddress, NeighbourReport
from pleach.core.overlay.neighbour_info import NeighbourInfo
from pleach.core.routing.router import RoutingConfig


def broker():
    made = Broker("n", RoutingConfig(), neighbours=["x"], machines=[NeighbourInfo])
    return made, made.machine(NeighbourInfo)


def report(**others):
    return NeighbourReport(NeighbourAddress("h:3", "h:4", "h:5"), {"n": NeighbourAddress(peer="h:1"), **others})


def test_what_a_neighbour_says_last_is_kept_through_a_restart():
    made, neighbour_info = broker()
    assert neighbour_info.of("x") is None
    assert made.handle("x", report(), now=0.0) == []
    made.handle("x", report(m=NeighbourAddress(admin="h:2")), now=1.0)
    again, restored = broker()
    again.restore(made.capture())
    assert restored.of("x") == report(m=NeighbourAddress(admin="h:2"))


def test_nothing_is_said_of_those_who_are_no_neighbours_any_more():
    made, neighbour_info = broker()
    made.handle("x", report(), now=0.0)
    made.disconnect("x")
    assert neighbour_info.of("x") is None
