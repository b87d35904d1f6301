"""Other systems under the same cuts (cut_rounds.py): servers of which two do not reach each other for a while.

    NATS        three servers, a full mesh of routes: what goes from s0 to s1 goes over the route between these two only
    Mosquitto   two servers, a bridge at QoS 1 with a session that stays: what was published meanwhile is queued

At each of the two servers one client publishes and one subscribes to what is published at the other one. Both systems
are as they come, but that a bridge of Mosquitto's tries again after a second, and queues without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pleach.bench.systems.mosquitto import MovingMosquitto, configuration
from pleach.bench.systems.moving import MovingSystem
from pleach.bench.systems.nats import MovingNats
from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from support.live.cut_rounds import KINDS
from support.live.link_proxy import ENDS, LinkProxy

SETTLE_SECONDS = 3.0
QUIET_SECONDS = 20.0  # a bridge that tries again waits for less
QUIET_SECONDS_MAX = 90.0
BRIDGE = """connection b
address {address}
topic # both 1
remote_clientid b
cleansession false
restart_timeout 1
keepalive_interval 5"""


@dataclass
class Heard:
    """What a subscriber got, in order, and when."""

    numbers: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def note(self, number: int) -> None:
        self.numbers.append(number)
        self.times.append(time.monotonic())

    def gap(self, since: float, until: float) -> float:
        times = [since, *(at for at in self.times if since < at < until), until]
        return max(after - before for before, after in pairwise(times))


@dataclass(frozen=True)
class PeerFigures:
    system: str
    kind: str
    seconds: float
    gap: float
    published: int
    lost: int
    doubled: int
    reordered: int

    def __str__(self) -> str:
        found = f"{self.lost:,} lost, {self.doubled:,} doubled, {self.reordered:,} out of order of {self.published:,}"
        return f"{self.system}, {self.kind} for {self.seconds:g} s: no event for {1_000 * self.gap:,.0f} ms; {found}"


@contextlib.asynccontextmanager
async def nats_pair(place: Path) -> AsyncIterator[tuple[MovingSystem, list[str], list[LinkProxy]]]:
    """Two of three servers; whatever route there is between them passes a proxy."""
    free = free_ports(6)
    ports, routes = free[:3], free[3:]
    proxies = [LinkProxy((LOOPBACK, routes[number]), (0.0, 0.001), f"nats-{number}") for number in range(2)]
    with ExitStack() as stack:
        for proxy in proxies:
            await proxy.start()
        places = [f"{host}:{port}" for host, port in (proxy.address for proxy in proxies)]
        known = ([], [places[0]], [f"{LOOPBACK}:{port}" for port in routes[:2]])
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            told = ", ".join(f'"nats-route://{each}"' for each in known[number])
            advertise = f'advertise: "{places[number]}"' if number < len(places) else ""
            cluster = f'cluster {{ name: cuts\nlisten: "{LOOPBACK}:{route}"\n{advertise}\nroutes: [{told}] }}'
            file = place / f"nats{number}.conf"
            file.write_text(f'server_name: "s{number}"\nlisten: "{LOOPBACK}:{port}"\n{cluster}\n')
            process = stack.enter_context(server(["nats-server", "-c", file], place / f"nats{number}.log"))
            wait_for_port(port, process, "nats-server")
        yield MovingNats(), [f"nats://{LOOPBACK}:{port}" for port in ports[:2]], proxies
        for proxy in proxies:
            await proxy.stop()


@contextlib.asynccontextmanager
async def mosquitto_pair(place: Path) -> AsyncIterator[tuple[MovingSystem, list[str], list[LinkProxy]]]:
    ports = free_ports(2)
    proxy = LinkProxy((LOOPBACK, ports[0]), (0.0, 0.001), "mosquitto")
    await proxy.start()
    host, port = proxy.address
    bridges = ("", BRIDGE.format(address=f"{host}:{port}"))
    with ExitStack() as stack:
        for number, (listens, bridge) in enumerate(zip(ports, bridges, strict=True)):
            file = place / f"mosquitto{number}.conf"
            file.write_text(configuration(listens, *([bridge] if bridge else [])))
            process = stack.enter_context(server(["mosquitto", "-c", file], place / f"mosquitto{number}.log"))
            wait_for_port(listens, process, "mosquitto")
        yield MovingMosquitto(), [f"{LOOPBACK}:{port}" for port in ports], [proxy]
    await proxy.stop()


PEERS = {"nats": nats_pair, "mosquitto": mosquitto_pair}


async def peer_round(
    name: str, kind: str, seconds: float, place: Path, per_second: float, *, say: Callable[[str], None]
) -> PeerFigures | None:
    """None: it is not installed, or has no way to be run here."""
    async with PEERS[name](place) as (system, addresses, proxies):
        if missing := system.missing():
            say(f"  {name}: {missing} is missing")
            return None
        heard = [Heard(), Heard()]
        publishers = [await system.connect(address, f"p{side}") for side, address in enumerate(addresses)]
        subscribers = [
            await system.connect(address, f"s{side}", f"t{1 - side}", heard[side].note)
            for side, address in enumerate(addresses)
        ]
        await asyncio.sleep(SETTLE_SECONDS)  # routes and bridges tell each other of subscriptions
        published = [0, 0]

        async def publish(side: int) -> None:
            began = time.monotonic()
            while True:
                while published[side] < (time.monotonic() - began) * per_second / 2:
                    published[side] += 1
                    await publishers[side].publish(f"t{side}", published[side])
                await asyncio.sleep(0.005)

        loads = [asyncio.create_task(publish(side)) for side in range(2)]
        await asyncio.sleep(SETTLE_SECONDS)
        began = time.monotonic()
        async with contextlib.AsyncExitStack() as cut:
            for proxy in proxies:
                await cut.enter_async_context(KINDS[kind].of(proxy.link, ENDS))
            await asyncio.sleep(seconds)
        cured = time.monotonic()
        await asyncio.sleep(SETTLE_SECONDS)
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        await _quiet(heard)
        for guest in (*publishers, *subscribers):
            await guest.leave()
    gap = max(each.gap(began, cured) for each in heard)
    counts = [_judged(heard[side].numbers, published[1 - side]) for side in range(2)]
    lost, doubled, reordered = (sum(each) for each in zip(*counts, strict=True))
    figures = PeerFigures(system.name, kind, seconds, gap, sum(published), lost, doubled, reordered)
    say(f"  {figures}")
    return figures


async def _quiet(heard: list[Heard]) -> None:
    began = time.monotonic()
    while time.monotonic() < began + QUIET_SECONDS_MAX:
        before = [len(each.numbers) for each in heard]
        await asyncio.sleep(QUIET_SECONDS)
        if before == [len(each.numbers) for each in heard]:
            return


def _judged(numbers: list[int], published: int) -> tuple[int, int, int]:
    """Lost, doubled, out of order: of those that came once, how many came after a later one."""
    counts = Counter(numbers)
    first = list(dict.fromkeys(numbers))
    highest, reordered = 0, 0
    for number in first:
        reordered += number < highest
        highest = max(highest, number)
    return published - len(counts), sum(counts.values()) - len(counts), reordered
