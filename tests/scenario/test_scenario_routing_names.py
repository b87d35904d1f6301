"""The language and the routing layer name the same policies."""

from __future__ import annotations

from pleach.core.routing.policies import POLICIES
from pleach.scenario.model import Routing


def test_routing_names_are_those_of_the_policies():
    assert {routing.value for routing in Routing} == set(POLICIES)
