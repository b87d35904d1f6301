"""Snapshots of running brokers, which are polled over their operators' ports.

A broker that does not answer stays in the snapshot as long as a neighbour names it, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from pleach.core.events.algebra import overlaps
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_internal
from pleach.core.messages import Node
from pleach.core.overlay.plans import PlanOutcome
from pleach.errors import DeniedError, InvalidInputError
from pleach.net.http_client import ask
from pleach.operate.apply import Directory, Watch, apply_plan, check_newcomers
from pleach.operate.survey import BrokerStatus, CopyStatus, Survey, settled_survey, survey
from pleach.server.standby.registers import display
from pleach.web.drafts import Draft, draft_of_drain, draft_of_move, draft_of_plan
from pleach.web.forms import CAN, Add, DashboardRequest, Drain, Move, Remove, TreeRequest, planned
from pleach.web.history import GlanceReport, History
from pleach.web.snapshot import Broker, Client, Counters, Kind, Link, Snapshot, SourceInfo, link_key

GLANCE = "/glance"


class LiveSource:
    """`places`: returns the admin addresses to begin at, and directories with ready lines."""

    def __init__(self, places: Callable[[], Sequence[str]], title: str) -> None:
        self._places = places
        self._title = title
        self._last: dict[Node, BrokerStatus] = {}  # of brokers in the snapshot, whether they answer now or not
        self._admin: dict[Node, str] = {}
        self._rates = Rates()
        self._history = History()

    @property
    def _starts(self) -> list[str]:
        """Also all addresses that answered before: one broker that is down must not hide the rest."""
        return list(dict.fromkeys([*self._places(), *self._admin.values()]))

    async def snapshot(self) -> Snapshot:
        at = time.time()
        found = await self._surveyed()
        self._remember(found)
        for name, status in sorted(found.found.items()):
            told = msgspec.convert(status.raw, GlanceReport)
            self._history.add_operations(name, told.operations, told.steps)
        brokers = {name: self._broker(name, found) for name in sorted(self._last)}
        self._history.add_brokers(brokers, at)
        snapshot = Snapshot(
            source=SourceInfo(Kind.LIVE, self._title, CAN, trouble=self._trouble(found)),
            at=at,
            brokers=brokers,
            links=dict(self._links(found, at)),
            clients=_clients(self._last, found),
            operations=self._history.operations,
            notices=self._history.notices,
            counters=self._counters(found, at),
        )
        self._rates.turn()
        return snapshot

    async def _surveyed(self) -> Survey:
        """Where the dashboard itself may not read, that is what it shows."""
        try:
            return await survey(self._starts, GLANCE)
        except DeniedError as error:
            return Survey(unreachable={error.address: error.reason})

    # The snapshot -----------------------------------------------------------------------------------------------

    def _remember(self, found: Survey) -> None:
        """Keep the brokers that answer, and the last status of those that they name."""
        named = {name for status in found.found.values() for name in status.neighbours}
        kept: dict[Node, BrokerStatus] = dict(found.found)
        waiting = sorted(named - kept.keys()) if found.found else sorted(self._last)
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
            reason = silent or "it has told nobody its admin address"
            last = self._last[name]
            clients = last.raw["clients_count"] if last.raw else 0
            return Broker(
                last.zone, answers=False, trouble=reason, durable=last.durable, clients=clients, admin=address
            )
        status = found.found[name]
        standby = status.standby
        copies = standby.copies if standby is not None else {}
        return Broker(
            zone=status.zone,
            trouble="; ".join(status.reasons),
            durable=status.durable,
            operation=status.operation,
            clients=status.raw["clients_count"],
            held=status.raw["held"],
            queued_bytes=status.raw["outbox_bytes"],
            admin=found.admin[name],
            machine=display(standby.machine) if standby is not None else "",
            copies={display(each): _lacks(copy) for each, copy in copies.items()},
            is_covered=standby is None or standby.covered,
            under_way={each.name: each.in_words for each in status.open_operations},
        )

    def _links(self, found: Survey, at: float) -> Iterator[tuple[str, Link]]:
        names = sorted({link_key(a, b) for a, status in self._last.items() for b in status.neighbours})
        for key in names:
            a, b = key.split("\n")
            there, back = _reported_by(found, a, b), _reported_by(found, b, a)
            if there is None and back is None and (a in found.found or b in found.found):
                continue  # remembered of a broker that does not answer; the other end says that there is no such link
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
                    relay=next((side["relay"] for side in sides if side["up"] and side["relay"]), ""),
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

    # Requests ---------------------------------------------------------------------------------------------

    async def draft(self, request: DashboardRequest) -> Draft:
        more = [request.at] if isinstance(request, Add) else []
        found = await settled_survey([*self._starts, *more])
        match request:
            case Drain():
                return draft_of_drain(found, request)
            case Move():
                return draft_of_move(found, request)
            case _:
                return self._draft_of_plan(found, request)

    def _draft_of_plan(self, found: Survey, request: TreeRequest) -> Draft:
        plan = planned(request, found.topology())
        check_newcomers(plan, found)
        detach_absent = isinstance(request, Remove) and request.detach_absent

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

    async def replay(self, run: str) -> dict[str, Any]:
        raise InvalidInputError(f"no run {run!r}: these brokers run; `pleach dashboard --trace LAKE` replays a trace")


def _reported_by(found: Survey, a: Node, b: Node) -> dict[str, Any] | None:
    """What a reports of its link to b; None if it does not answer, or has no such link."""
    if a not in found.found:
        return None
    side: dict[str, Any] | None = found.found[a].raw["neighbours"].get(b)
    return side


def _clients(brokers: Mapping[Node, BrokerStatus], found: Survey) -> dict[Node, Client]:
    """A client that moves is at two brokers for a moment: the one that it is connected to counts.

    Clients of a broker that does not answer are shown where they were, and not connected.
    """
    seen: dict[Node, Client] = {}
    for name, status in sorted(brokers.items()):
        for client, told in sorted(status.clients.items()):
            up = told.up and name in found.found
            if client not in seen or up:
                seen[client] = Client(name, up, told.queued, told.subscriptions_count)
    return seen


Key: TypeAlias = tuple[str, ...]


class Rates:
    """From readings of counters, which restart from 0 with a process or a connection."""

    def __init__(self) -> None:
        self._before: dict[Key, tuple[float, float]] = {}
        self._now: dict[Key, tuple[float, float]] = {}

    def of(self, key: Key, value: float, at: float) -> float:
        """Per second, since the reading before; 0 at the first one."""
        self._now[key] = (value, at)
        if key not in self._before:
            return 0.0
        last, since = self._before[key]
        grown = value - last if value >= last else value
        return round(grown / (at - since), 1) if at > since else 0.0

    def turn(self) -> None:
        """End a reading: forget counters that it did not contain."""
        self._before, self._now = self._now, {}


def _lacks(copy: CopyStatus) -> str:
    if copy.behind is None:
        return "being brought up"
    return f"{copy.behind.records:,} behind" if copy.behind.records else ""
