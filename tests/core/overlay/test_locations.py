"""What a broker knows of where others are."""

import pytest

from pleach.core.broker import Broker
from pleach.core.messages import BrokerLocation, HostLocation, LocationReport, decode, encode
from pleach.core.overlay import locations
from pleach.core.overlay.locations import KnownLocations
from pleach.core.routing.router import RoutingConfig


def broker():
    made = Broker("n", RoutingConfig(), neighbours=["x"], machines=[KnownLocations])
    return made, made.machine(KnownLocations)


def told(made, brokers=(), **hosts):
    made.handle("x", LocationReport(dict(brokers), hosts), now=0.0)


def at(address, epoch=1, view=1, since=1):
    return BrokerLocation(epoch, view, since, peer=address, hosts={"m#1": "h:9"})


def test_what_was_told_is_kept_through_a_restart():
    made, known = broker()
    told(made, {"y": at("h:1")}, m=HostLocation(4, "h:2", "south"))
    again, restored = broker()
    again.restore(made.capture())
    assert dict(restored.brokers) == dict(known.brokers) == {"y": at("h:1")}
    assert dict(restored.hosts) == {"m": HostLocation(4, "h:2", "south")}


@pytest.mark.parametrize(
    "older", [at("h:2", epoch=1, view=9, since=9), at("h:2", epoch=2, view=1, since=9), at("h:2", epoch=2, view=2)]
)
def test_the_later_term_counts(older):
    for order in ([older, at("h:1", 2, 2, 2)], [at("h:1", 2, 2, 2), older]):
        made, known = broker()
        for each in order:
            told(made, {"y": each})
        assert known.brokers["y"].peer == "h:1"


def test_the_host_that_started_last_counts():
    made, known = broker()
    for since in (2, 3, 1):
        told(made, m=HostLocation(since, f"h:{since}"))
    assert known.hosts["m"].address == "h:3"


def test_nobody_tells_a_broker_where_it_is_itself():
    made, known = broker()
    told(made, {"n": at("h:1")})
    assert not known.brokers


def test_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(locations, "BROKERS_MAX", 2)
    monkeypatch.setattr(locations, "HOSTS_MAX", 2)
    made, known = broker()
    for number in range(1, 5):
        told(made, {f"y{number}": at("h:1")}, **{f"m{number}": HostLocation(number, "h:2")})
    assert sorted(known.brokers) == ["y1", "y2"]
    assert sorted(known.hosts) == ["m3", "m4"]


def test_one_report_exceeds_no_bound_either(monkeypatch):
    monkeypatch.setattr(locations, "BROKERS_MAX", 2)
    monkeypatch.setattr(locations, "HOSTS_MAX", 2)
    made, known = broker()
    told(made, {f"y{n}": at("h:1") for n in range(5)}, **{f"m{n}": HostLocation(n, "h:2") for n in range(1, 5)})
    assert (len(known.brokers), len(known.hosts)) == (2, 2)


def test_the_revision_rises_with_news_only():
    made, known = broker()
    told(made, {"y": at("h:1", 2)}, m=HostLocation(4, "h:2"))
    before = known.revision
    told(made, {"y": at("h:1", 2), "n": at("h:3")}, m=HostLocation(4, "h:2"))
    assert known.revision == before
    told(made, {"y": at("h:1", 3)})
    assert known.revision > before
    told(made, m=HostLocation(5, "h:2"))
    assert known.revision > before + 1


def test_a_report_travels():
    report = LocationReport({"y": at("h:1")}, {"m#1": HostLocation(1, "h:2")})
    assert decode(encode(report)) == report
