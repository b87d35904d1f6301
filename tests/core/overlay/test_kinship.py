"""What a broker keeps of its neighbours' neighbours, and of who stands in for whom."""

from pleach.core.broker import Broker
from pleach.core.messages import Kin, Stand, Whereabouts
from pleach.core.overlay.healing.neighbour_info import Kinship
from pleach.core.routing.router import RoutingConfig


def broker():
    made = Broker("n", RoutingConfig(), neighbours=["x"], machines=[Kinship])
    return made, made.machine(Kinship)


def kin(**stands):
    others = {"n": Whereabouts(peer="h:1"), "m": Whereabouts(admin="h:2")}
    return Kin(Whereabouts("h:3", "h:4", "h:5"), others, "m", {}, stands)


def test_what_a_neighbour_says_last_is_kept_through_a_restart():
    made, kinship = broker()
    assert kinship.of("x") is None
    assert made.handle("x", kin(), now=0.0) == []
    made.handle("x", kin(y=Stand(5, "h:6")), now=1.0)
    again, restored = broker()
    again.restore(made.capture())
    assert restored.of("x") == kin(y=Stand(5, "h:6"))
    assert restored.stands == {"y": Stand(5, "h:6")}


def test_a_stand_in_is_known_by_its_newest_life():
    made, kinship = broker()
    for stand in (Stand(5, "h:6"), Stand(7, "h:7"), Stand(6, "h:8")):
        made.handle("x", kin(y=stand), now=0.0)
    assert kinship.stands == {"y": Stand(7, "h:7")}


def test_nothing_is_said_of_those_who_are_no_neighbours_any_more():
    made, kinship = broker()
    made.handle("x", kin(), now=0.0)
    made.disconnect("x")
    assert kinship.of("x") is None
