"""A broker of a ring before it is in the tree: nobody comes in by then, and it is not ready."""

import pytest

from pleach.core.links.frames import Hello
from pleach.server.door.admission import ROLES
from pleach.server.http.status import unready
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.ring.member import RingMember, Stay
from pleach.server.ring.settings import RingSettings
from pleach.server.settings import BrokerSettings


def member():
    settings = BrokerSettings("b", ring=RingSettings(found=True))
    return BrokerNode(settings, None, 1, clock=lambda: 0.0, on_end=lambda *_: None)


@pytest.mark.parametrize("port", Port)
def test_outside_nobody_is_let_in_and_it_is_not_ready(port):
    node = member()
    hello = Hello("x", 1, 0, 0, 1, role=ROLES[port][0])
    assert node._admission.refusal(hello, port)
    assert unready(node) == ["not in the tree yet"]
    node.features[RingMember].stay = Stay.INSIDE
    assert unready(node) == []
    assert not node._admission.refusal(hello, port)
