"""What a broker passes on of machines that tell it where they are, again and again."""

from types import SimpleNamespace

import pytest

from pleach.core.messages import HostLocation, LocationReport
from pleach.server.location_reports import LocationReports

HERE = HostLocation(5, "h:1", "south", "h:2")


def requested(known, told):
    """What is written down, and told to neighbours, of a machine about which this is known."""
    requests = []
    parts = SimpleNamespace(
        broker=None,
        endpoint=SimpleNamespace(request=lambda message, now: requests.append((message, now))),
        links=None,
        directory=SimpleNamespace(known=SimpleNamespace(hosts={"h#1": known} if known else {})),
        settings=lambda: None,
        clock=lambda: 1.0,
    )
    LocationReports(parts).announce("h#1", told)
    return requests


@pytest.mark.parametrize(
    "told",
    [HERE, HostLocation(6, "h:3", "south", "h:2"), HostLocation(6, "h:1", "south", "h:2", is_leaving=True)],
    ids=["it is new", "it is elsewhere", "it is leaving"],
)
def test_news_of_a_machine_are_told(told):
    known = None if told is HERE else HERE
    assert requested(known, told) == [(LocationReport({}, {"h#1": told}), 1.0)]


@pytest.mark.parametrize("since", [4, 5, 6])
def test_what_is_known_is_not_told_again(since):
    assert requested(HERE, HostLocation(since, "h:1", "south", "h:2")) == []


def test_what_is_older_than_what_is_known_is_not_told():
    assert requested(HERE, HostLocation(4, "h:3")) == []
