"""Joining: through any member into the ring, and where the ring says into the tree.

    knock at the seeds ── one answers ──▶ same terms? ──▶ nobody of my name? ──▶ RingHost.join ──▶ member
    member ── the ring names neighbours ──▶ knock: are you in the tree? ── yes ──▶ AddBroker there ──▶ in the tree

Rule 1: a broker joins the tree only at one that is in it. Two newcomers may be each other's neighbours by the ring: one
        that is not in the tree yet says so, and accepts nobody; or there would be two trees.
Rule 2: the parent is asked first, then the children, then whoever else is known. It may be the wrong place; the steward
        corrects that.
Rule 3: where no steward corrects anything, who has as many neighbours as the ring allows is asked last: else the first
        brokers of a network would be the neighbours of all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from pleach.core.broker import Broker
from pleach.core.messages import Greeting, Peer, RequestAdd
from pleach.core.ring.chord import RingPhase
from pleach.errors import JoinError, SettingsError
from pleach.net.addresses import Address, parse_address, unreachable_if_no_host, why
from pleach.operate.operation import fresh_name
from pleach.server.operations import Operations
from pleach.server.ring.datagrams import numeric
from pleach.server.ring.driver import RingDriver

FINDS_MAX: Final = 3  # messages may be lost, and who has my name must be found if it is there
PAUSE_SECONDS: Final = 0.2
LOG_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


async def numeric_address(text: str, *, key: str) -> str:
    """An address as hosts of a ring tell it: numbers, that others can reach. Raises SettingsError."""
    address = parse_address(text, key=key)
    try:
        with unreachable_if_no_host(address.host):
            found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port)
    except OSError as error:
        raise SettingsError(key, f"{text}: {why(error)}", "an address that can be resolved") from None
    made = str(Address(str(found[0][4][0]), address.port))
    if numeric(made) is None:
        raise SettingsError(key, f"{text} is no address that others could reach", "give one with --advertise")
    return made


# The ring --------------------------------------------------------------------------------------------------------


async def enter_ring(driver: RingDriver, seeds: Sequence[str], terms: dict[str, str], seconds_max: float) -> None:
    """Through those of the seeds that answer. Raises JoinError."""
    me = driver.me
    members = [greeting.peer for greeting in await _greetings(driver, seeds, terms, seconds_max)]
    for number in range(FINDS_MAX):
        owner = await driver.find(me.key, members[number % len(members)])
        if owner is not None:
            _check_name(me, owner.owner)
            break
    if refusal := await driver.join(members):
        raise JoinError(me.name, refusal, "try again, or another member")


async def _greetings(
    driver: RingDriver, seeds: Sequence[str], terms: dict[str, str], seconds_max: float
) -> list[Greeting]:
    """Members that accept brokers first: others may be leaving."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds_max
    places = [await numeric_address(seed, key="ring.join") for seed in seeds]
    while clock() < deadline:
        answers = await asyncio.gather(*map(driver.knock, places))
        if greetings := [greeting for greeting in answers if greeting is not None]:
            for greeting in greetings:
                _check_name(driver.me, greeting.peer)
                _check_terms(driver.me, greeting, terms)
            return sorted(greetings, key=lambda greeting: not greeting.is_open)
    reason = f"no member of a ring answers at {', '.join(seeds)} within {seconds_max:g} s"
    remedy = "is that where a broker listens for brokers (`peer` in its ready line), and was it started with --ring?"
    raise JoinError(driver.me.name, reason, remedy)


def _check_name(me: Peer, other: Peer) -> None:
    if other.name == me.name:
        raise JoinError(me.name, f"a broker {me.name} is in it, at {other.address}", "take another name, or stop that")
    if other.key == me.key:
        raise JoinError(me.name, f"{other.name} has the same key", "take another name, or keys with more bits")


def _check_terms(me: Peer, greeting: Greeting, terms: dict[str, str]) -> None:
    for key, value in sorted(terms.items()):
        theirs = greeting.terms.get(key, "unknown")
        if theirs != value:
            reason = f"{key} is {value} here, and {theirs} at {greeting.peer.name}"
            raise JoinError(me.name, reason, "all brokers of a network have the same")


# The tree ----------------------------------------------------------------------------------------------------------


async def enter_tree(broker: Broker, operations: Operations, driver: RingDriver, degree_max: int | None) -> None:
    """Return once this broker is in the tree, however long that takes.

    `degree_max`: of the brokers that are asked first (rule 3); None where a steward corrects the place.
    """
    clock = asyncio.get_running_loop().time
    told_at = clock()
    while not broker.router.neighbours:
        for peer in await _open_ones(driver, degree_max):
            if await _entered_at(operations, driver, peer):
                return
        if clock() - told_at > LOG_SECONDS:
            told_at = clock()
            log.warning("%s is in the ring, and not in the tree yet: nobody that it knows lets it in", broker.name)
        await driver.change(PAUSE_SECONDS)


async def _open_ones(driver: RingDriver, degree_max: int | None) -> list[Peer]:
    """Rules 1, 2 and 3."""
    answers = await asyncio.gather(*(driver.knock(peer.address, peer.name) for peer in _candidates(driver)))
    greetings = [greeting for greeting in answers if greeting is not None and greeting.is_open]
    if degree_max is not None:  # stable: among those that have room, the order is that of rule 2
        greetings.sort(key=lambda greeting: max(greeting.neighbours, degree_max - 1))
    return [greeting.peer for greeting in greetings]


def _candidates(driver: RingDriver) -> list[Peer]:
    """Empty until the ring has named neighbours, which takes a few messages."""
    host = driver.host
    if host.phase is not RingPhase.MEMBER or not host.neighbourhood.all:
        return []
    known = (*host.neighbourhood.all, host.view.predecessor, *host.view.successors)
    return list(dict.fromkeys(peer for peer in known if peer != driver.me))


async def _entered_at(operations: Operations, driver: RingDriver, peer: Peer) -> bool:
    end = await operations.request(RequestAdd(fresh_name(), peer.name, peer.address))
    if end.refusal:
        log.info("%s does not take %s into the tree: %s", peer.name, driver.me.name, end.refusal)
    return not end.refusal
