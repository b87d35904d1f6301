"""Reports of a large network are cut to what a frame holds."""

import pytest

from pleach.core.links.frames import FRAME_BYTES_MAX
from pleach.core.messages import BrokerLocation, HostLocation, LocationReport, encode
from pleach.core.overlay.locations import BROKERS_MAX, HOSTS_MAX
from pleach.server.location_reports import LOCATIONS_PER_REPORT, NOTHING, portions

LONG = "n" * 100
ADDRESS = "[fe80:1234:1234:1234:1234:1234:1234:1234]:65535"


def whole(brokers, hosts):
    view = {f"{LONG}#{number}": ADDRESS for number in range(5)}
    location = BrokerLocation(2**62, 3, 2**62, ADDRESS, ADDRESS, ADDRESS, f"{LONG}#1", view)
    return LocationReport(
        {f"{LONG}{number}": location for number in range(brokers)},
        {f"{LONG}{number}#1": HostLocation(2**62, ADDRESS, LONG, ADDRESS) for number in range(hosts)},
    )


@pytest.mark.parametrize(("brokers", "hosts"), [(BROKERS_MAX, HOSTS_MAX), (1_001, 3), (0, 501), (7, 0)])
def test_portions_have_everything_once_and_fit_into_frames(brokers, hosts):
    report = whole(brokers, hosts)
    told = [*portions(report)]
    assert {name for each in told for name in each.brokers} == report.brokers.keys()
    assert {name for each in told for name in each.hosts} == report.hosts.keys()
    assert sum(len(each.brokers) + len(each.hosts) for each in told) == brokers + hosts
    assert max(len(each.brokers) for each in told) <= LOCATIONS_PER_REPORT
    assert max(len(encode(each)) for each in told) < FRAME_BYTES_MAX / 4


def test_where_there_is_nothing_to_tell_nothing_is_told():
    assert not [*portions(NOTHING)]
