"""The picture of brokers that run: their tree is walked over the operators' ports, again and again.

A broker that does not answer stays in the picture as long as a neighbour speaks of it, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pleach.core.events.algebra import overlaps
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_internal
from pleach.core.messages import Node
from pleach.core.overlay.plans import PlanOutcome
from pleach.errors import InvalidInputError
from pleach.net.http_client import ask
from pleach.operate.apply import Directory, Watch, apply_plan, check_newcomers
from pleach.operate.survey import BrokerStatus, Survey, settled_survey, survey
from pleach.web.chronicle import Chronicle, Told
from pleach.web.draft import Draft, draft_of_plan
from pleach.web.journeys import draft_of_drain, draft_of_move
from pleach.web.picture import Broker, Client, Counters, Kind, Link, Picture, Source, link_key
from pleach.web.rates import Rates
from pleach.web.wishes import CAN, Add, Drain, Move, Remove, TreeWish, Wish, planned

GLANCE = "/glance"


class LiveSource:
    """`places`: admin addresses to begin at, and directories with ready lines; asked for when they are needed."""

    def __init__(self, places: Callable[[], Sequence[str]], title: str) -> None:
        self._places = places
        self._title = title
        self._last: dict[Node, BrokerStatus] = {}  # of brokers in the picture, whether they answer now or not
        self._admin: dict[Node, str] = {}
        self._rates = Rates()
        self._chronicle = Chronicle()

    @property
    def _starts(self) -> list[str]:
        """Wherever somebody has answered before: one broker that is down must not hide the rest."""
        return list(dict.fromkeys([*self._places(), *self._admin.values()]))

    async def look(self) -> Picture:
        at = time.time()
        found = await survey(self._starts, GLANCE)
        self._remember(found)
        for name, status in sorted(found.found.items()):
            told = msgspec.convert(status.raw, Told)
            self._chronicle.heard(name, told.operations, told.steps)
        brokers = {name: self._broker(name, found) for name in sorted(self._last)}
        self._chronicle.saw(brokers, at)
        picture = Picture(
            source=Source(Kind.LIVE, self._title, CAN, trouble=self._trouble(found)),
            at=at,
            brokers=brokers,
            links=dict(self._links(found, at)),
            clients=_clients(self._last, found),
            operations=self._chronicle.operations,
            notices=self._chronicle.notices,
            counters=self._counters(found, at),
        )
        self._rates.turn()
        return picture

    # The picture -----------------------------------------------------------------------------------------------

    def _remember(self, found: Survey) -> None:
        """Who answers, and of the others whom somebody speaks of: who answers knows better than our memory."""
        spoken = {name for status in found.found.values() for name in status.neighbours}
        kept: dict[Node, BrokerStatus] = dict(found.found)
        waiting = sorted(spoken - kept.keys()) if found.found else sorted(self._last)
        while waiting:
            name = waiting.pop()
            if name not in kept:
                kept[name] = self._last.get(name, BrokerStatus(name, False, False, [], {}, {}))  # noqa: FBT003 - as on the wire
                waiting += [n for n in kept[name].neighbours if n in self._last and n not in found.found]
        self._last = kept
        known = {**self._admin, **found.admin}
        self._admin = {name: address for name, address in known.items() if name in kept}

    def _broker(self, name: Node, found: Survey) -> Broker:
        if name not in found.found:
            address = self._admin.get(name, "")
            silent = found.unreachable.get(name) or found.unreachable.get(address)
            reason = silent or "it has told nobody where its operators' port is"
            last = self._last[name]
            clients = last.raw["clients_count"] if last.raw else 0
            return Broker(
                _zone(last), answers=False, trouble=reason, durable=last.durable, clients=clients, admin=address
            )
        status = found.found[name]
        return Broker(
            zone=_zone(status),
            trouble="; ".join(status.reasons),
            durable=status.durable,
            operation=status.operation,
            clients=status.raw["clients_count"],
            held=status.raw["held"],
            queued_bytes=status.raw["outbox_bytes"],
            admin=found.admin[name],
        )

    def _links(self, found: Survey, at: float) -> Iterator[tuple[str, Link]]:
        names = sorted({link_key(a, b) for a, status in self._last.items() for b in status.neighbours})
        for key in names:
            a, b = key.split("\n")
            there, back = _told_by(found, a, b), _told_by(found, b, a)
            if there is None and back is None and (a in found.found or b in found.found):
                continue  # a memory of one that is silent; who answers says that there is no such link
            sides = [side for side in (there, back) if side is not None]
            trips = [side["round_trip"] for side in sides if side["round_trip"] is not None]
            yield (
                key,
                Link(
                    a,
                    b,
                    up=bool(sides) and all(side["up"] for side in sides),
                    there=self._rates.of((a, b), there["bytes_out"], at) if there else 0.0,
                    back=self._rates.of((b, a), back["bytes_out"], at) if back else 0.0,
                    queued_there=there["queued"] if there else 0,
                    queued_back=back["queued"] if back else 0,
                    round_trip=round(sum(trips) / len(trips), 5) if trips else None,
                ),
            )

    def _counters(self, found: Survey, at: float) -> Counters:
        counted = {name: status.raw["counters"] for name, status in sorted(found.found.items())}

        def rate(field: str) -> float:
            return round(sum(self._rates.of((name, field), c[field], at) for name, c in counted.items()), 1)

        return Counters(
            published=sum(c["publishes"] for c in counted.values()),
            delivered=sum(c["deliveries"] for c in counted.values()),
            refused=sum(c["refused"] for c in counted.values()),
            publish_rate=rate("publishes"),
            deliver_rate=rate("deliveries"),
        )

    def _trouble(self, found: Survey) -> str:
        if found.found:
            return ""
        tried = "; ".join(f"{who}: {why}" for who, why in sorted(found.unreachable.items()))
        return f"no broker answers ({tried}); are these admin addresses, and do the brokers run?"

    # What is asked ---------------------------------------------------------------------------------------------

    async def draft(self, wish: Wish) -> Draft:
        more = [wish.at] if isinstance(wish, Add) else []
        found = await settled_survey([*self._starts, *more])
        match wish:
            case Drain():
                return draft_of_drain(found, wish)
            case Move():
                return draft_of_move(found, wish)
            case _:
                return self._draft_of_plan(found, wish)

    def _draft_of_plan(self, found: Survey, wish: TreeWish) -> Draft:
        plan = planned(wish, found.topology())
        check_newcomers(plan, found)
        detach_absent = isinstance(wish, Remove) and wish.detach_absent

        async def apply(watch: Watch) -> PlanOutcome:
            return await apply_plan(plan, Directory.of(found), detach_absent=detach_absent, watch=watch)

        return draft_of_plan(plan, apply)

    async def detail(self, broker: Node) -> dict[str, Any]:
        if broker not in self._admin:
            raise InvalidInputError(f"no broker {broker!r} is known here")
        answer = await ask(self._admin[broker], "/status")
        told: dict[str, Any] = answer.value
        return told

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:
        found = await survey(self._starts)
        subscribed = (
            (client, text)
            for status in found.found.values()
            for client, told in status.raw["clients"].items()
            for text in told["subscriptions"].values()
        )
        result: dict[Node, list[str]] = {}
        for client, text in sorted(subscribed):
            if overlaps(parse_internal(text), wanted):
                result.setdefault(client, []).append(text)
        return result

    async def film(self, run: str) -> dict[str, Any]:
        raise InvalidInputError(f"no run {run!r}: these brokers run; `pleach dashboard --trace LAKE` replays a trace")


def _told_by(found: Survey, a: Node, b: Node) -> dict[str, Any] | None:
    """What a says of its link to b; None if it does not answer, or has no such link."""
    if a not in found.found:
        return None
    side: dict[str, Any] | None = found.found[a].raw["neighbours"].get(b)
    return side


def _zone(status: BrokerStatus) -> str:
    return str(status.raw["zone"]) if status.raw else ""


def _clients(brokers: Mapping[Node, BrokerStatus], found: Survey) -> dict[Node, Client]:
    """One that moves is with two brokers for a moment: the one that it is connected to counts.

    Those of a broker that is silent are where they were, as far as anybody knows, and not connected.
    """
    seen: dict[Node, Client] = {}
    for name, status in sorted(brokers.items()):
        for client, told in sorted(status.clients.items()):
            up = told.up and name in found.found
            if client not in seen or up:
                seen[client] = Client(name, up, told.queued, told.subscriptions_count)
    return seen
