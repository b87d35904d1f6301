"""The smallest cycle on which both links have ends of their own: tree 1–2–3–4, link 2–3 goes and link 1–4 comes."""

from __future__ import annotations

import msgspec

from pleach.core.overlay.registry import WAITING
from pleach.explore.search import Exploration, explore
from pleach.scenario import Scenario
from pleach.scenario.schedule import ExploreOptions
from support.explore.chains import Chain, client, publish, subscribe, unsubscribe

EXCHANGE = "do = 'exchange'\nremove = ['2', '3']\nadd = ['1', '4']"

LEFT_TO_RIGHT = (client("p", "1"), client("s", "3", "price > 50"))
RIGHT_TO_LEFT = (client("p", "4"), client("s", "2", "price > 50"))

AGAIN = (unsubscribe("s", "price > 50"), subscribe("s", "price > 50"))


def cycle(*steps: str, clients: tuple[str, ...] = (), exchange: str = "advanced-coordinated", **changes) -> Scenario:
    chain = Chain(brokers="1234", clients=clients, steps=(EXCHANGE, *steps)).but(**{"routing": "simple", **changes})
    return msgspec.structs.replace(chain.scenario(), exchange=exchange)


def one_event(clients: tuple[str, ...], exchange: str) -> Scenario:
    return cycle(publish("p", 60), clients=clients, exchange=exchange)


def explored(scenario: Scenario, only: str = "") -> Exploration:
    options = ExploreOptions(instant_clients=True, timers=scenario.exchange in WAITING)
    return explore(scenario, options=options, only=only)


def length(result: Exploration) -> int:
    """Of the shortest schedule; 0 if nothing failed."""
    assert result.complete
    return len(result.finding.schedule.steps) if result.finding else 0
