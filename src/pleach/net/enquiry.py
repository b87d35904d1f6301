"""Enquiries: where is a broker that does not answer where it was?

    whoever misses y ── Hello, role "enquiry", wants y ──▶ a broker, or a host of copies
                     ◀── Bye ELSEWHERE, address, view ────  where y is, as far as that one knows

A broker that was promoted on another machine is found so by those who only know its former address. On the port for
peers the address is that for peers, on the port for clients that for clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

from pleach.core.links.frames import ENQUIRY, Bye, ByeReason, Challenge, Frame, Hello
from pleach.core.messages import Node
from pleach.errors import TlsError
from pleach.net.addresses import Address
from pleach.net.client_login import NO_LOGIN, ClientLogin
from pleach.net.connection import Connection, Handlers, open_connection
from pleach.net.tls_layer import TlsSide

ENQUIRY_SECONDS_MAX = 2.0
ASKED_MAX = 32  # for one answer


class Whereabouts(NamedTuple):
    """Where a broker is, as far as somebody knows. Later views sort last, and in each the broker itself."""

    view: int  # 0: it has no standbys
    is_there: bool  # at this address; else it is that of a host that may know more
    address: str

    def is_news_to(self, known: Whereabouts | None) -> bool:
        """Whether the broker is said to be elsewhere than at the address at which it is `known` to be, and dialled."""
        if known is None:
            return True
        return self.view > known.view or (self.view == known.view and self.address != known.address)

    def bye(self, wanted: Node) -> Bye:
        reason = f"{wanted} is at {self.address}" if self.is_there else f"ask at {self.address} for {wanted}"
        return Bye(ByeReason.ELSEWHERE, reason, address=self.address, is_at_work=self.is_there, view=self.view)


def newest(found: Iterable[Whereabouts | None]) -> Whereabouts | None:
    """What counts of several answers; None: nobody knows."""
    return max((each for each in found if each is not None and each.address), default=None)


def enquiry(node: Node, epoch: int, wanted: Node) -> Hello:
    return Hello(node, epoch, 0, 0, 1, role=ENQUIRY, wants=wanted)


def answered(frame: Frame) -> Whereabouts | None:
    """What an answer says; None: that it does not know."""
    match frame:
        case Bye(why=ByeReason.ELSEWHERE, address=address) if address:
            return Whereabouts(frame.view, frame.is_at_work, address)
    return None


def answer_enquiry(connection: Connection, wanted: Node, found: Whereabouts | None) -> None:
    """Say what is known, and end the connection."""
    bye = found.bye(wanted) if found is not None else Bye(ByeReason.ELSEWHERE, f"where {wanted} is, is not known here")
    connection.send(bye)
    connection.close(bye.reason)


async def search(
    ask: Callable[[str], Coroutine[Any, Any, Whereabouts | None]],
    addresses: Iterable[str],
    is_news: Callable[[Whereabouts], bool],
) -> Whereabouts | None:
    """Ask at all addresses at once, and at those that the answers name; the first news count. None: there are none."""
    to_ask = list(addresses)
    asked: dict[str, None] = {}
    asking: set[asyncio.Task[Whereabouts | None]] = set()
    try:
        while True:
            for address in to_ask:
                if address not in asked and len(asked) < ASKED_MAX:
                    asked[address] = None
                    asking.add(asyncio.create_task(ask(address)))
            if not asking:
                return None
            done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            answers = [answer for task in done if (answer := task.result()) is not None]
            news = [each for each in answers if each.is_there and is_news(each)]
            if news:
                return max(news)
            to_ask = [each.address for each in answers if not each.is_there]
    finally:
        for task in asking:
            task.cancel()


async def enquire(
    address: Address, hello: Hello, tls: TlsSide | None, login: ClientLogin = NO_LOGIN
) -> Whereabouts | None:
    """Ask at one address; None: nobody answers there in time, or it is not known there."""
    answer: asyncio.Future[Whereabouts | None] = asyncio.get_running_loop().create_future()

    def on_frame(connection: Connection, frame: Frame) -> None:
        if isinstance(frame, Challenge) and login.awaits_challenge:
            connection.send(login.answer(frame, connection.peer_certificate, hello.node))
            connection.send(hello)
        elif not answer.done():
            answer.set_result(answered(frame))

    def on_lost(_connection: Connection, _reason: str) -> None:
        if not answer.done():
            answer.set_result(None)

    connection: Connection | None = None
    try:
        async with asyncio.timeout(ENQUIRY_SECONDS_MAX):
            connection = await open_connection(address.host, address.port, Handlers(on_frame, on_lost), tls)
            if (opening := login.opening(hello.node)) is not None:
                connection.send(opening)
            if not login.awaits_challenge:
                connection.send(hello)
            return await answer
    except (OSError, TimeoutError, TlsError):
        return None
    finally:
        if connection is not None:
            connection.abort("asked")
