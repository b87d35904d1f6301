"""Tunnels: a broker passes on the bytes of connections between two others; the side of the relay.

    a ── Hello, role "tunnel", wants b ──▶ relay ── connects ──▶ b's port for peers
    a ◀══════════════════════════════════▶ relay ◀═════════════▶ b          bytes as they are, both ways

Rule 1: a tunnel leads to a broker, by its name, and to where this one knows it to be: never to an address that whoever
        asks could choose.
Rule 2: only brokers of the network may ask: with TLS those whose certificate says so, for the name that they go by;
        without TLS those whose name this broker knows, which is all that can be had.
Rule 3: of two tunnels between the same brokers the newer one counts. A broker has TUNNELS_PER_BROKER at most, and all
        together have `tunnels`. What is asked for beyond that is refused: who has one keeps it.
Rule 4: what one side does not read is not read from the other, beyond two buffers of fixed size.
Rule 5: a tunnel that carries nothing for `idle_seconds` is ended. Sessions send heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

from pleach.core.links.frames import TUNNEL, Bye, ByeReason, Hello
from pleach.core.links.session import HEARTBEATS_MISSED_MAX
from pleach.core.messages import Node
from pleach.errors import SettingsError
from pleach.net.addresses import parse_address
from pleach.net.connection import (
    CARRIED_BUFFER_HIGH_BYTES,
    CARRIED_BUFFER_LOW_BYTES,
    CLOSE_SECONDS_MAX,
    Carried,
    Connection,
)
from pleach.net.dial import dial
from pleach.server.bugs import watched
from pleach.server.feature import Feature
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts
from pleach.server.relay.settings import RelaySettings

CONNECT_SECONDS_MAX = 2.0
TUNNELS_PER_BROKER = 8

log = logging.getLogger(__name__)


class Tunnel(asyncio.Protocol):
    """One tunnel; also the protocol of its far connection, to the broker that is wanted."""

    def __init__(self, near: Connection, asker: Node, wanted: Node, now: float) -> None:
        self.near = near
        self.asker = asker
        self.wanted = wanted
        self.carried_at = now
        self.carried_bytes = 0
        self.is_idle = False  # nothing was carried since this was set
        self.task: asyncio.Task[None] | None = None  # connects
        self._far: asyncio.Transport | None = None

    def open(self, answer: Hello) -> None:
        """Both connections are there: answer, and pass on bytes from here on."""
        assert self._far is not None
        self.near.send(answer)
        self.near.carry(Carried(self._from_near, self._pause_far, self._resume_far))

    def end(self, reason: str) -> None:
        if self.task is not None:
            self.task.cancel()
        self.near.close(reason)
        if self._far is not None and not self._far.is_closing():
            self._far.close()
            asyncio.get_running_loop().call_later(CLOSE_SECONDS_MAX, self._far.abort)

    def _from_near(self, data: bytes) -> None:
        self._note(data)
        if self._far is not None and not self._far.is_closing():
            self._far.write(data)

    def _pause_far(self) -> None:
        if self._far is not None:
            self._far.pause_reading()

    def _resume_far(self) -> None:
        if self._far is not None:
            self._far.resume_reading()

    def _note(self, data: bytes) -> None:
        self.carried_bytes += len(data)
        self.is_idle = False

    # The far connection --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._far = cast("asyncio.Transport", transport)
        self._far.set_write_buffer_limits(CARRIED_BUFFER_HIGH_BYTES, CARRIED_BUFFER_LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        self._note(data)
        self.near.write_bytes(data)

    def pause_writing(self) -> None:
        self.near.pause_reading()

    def resume_writing(self) -> None:
        self.near.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._far = None
        self.near.close(f"{self.wanted} has ended it: {exc or 'closed'}")


class Tunnels(Feature):
    def __init__(self, parts: NodeParts, settings: RelaySettings) -> None:
        self._name, self._endpoint = parts.broker.name, parts.endpoint
        self._directory, self._settings, self._clock = parts.directory, parts.settings, parts.clock
        self._counters = parts.counters.relay
        self._relay = settings
        self._tunnels: dict[Connection, Tunnel] = {}

    def accept(self, connection: Connection, hello: Hello) -> str:
        """Take over a connection whose broker asks for a tunnel; returns why not (it is told), or nothing."""
        reason = self._refusal(hello.node, hello.wants, is_proven=connection.tls is not None)
        if reason:
            self._counters.tunnels_refused += 1
            connection.send(Bye(ByeReason.REFUSED, reason))
            connection.close(reason)
            return reason
        self._end_former(hello.node, hello.wants)
        tunnel = self._tunnels[connection] = Tunnel(connection, hello.node, hello.wants, self._clock())
        tunnel.task = watched(self._connect(tunnel))
        return ""

    def _refusal(self, asker: Node, wanted: Node, *, is_proven: bool) -> str:
        """`is_proven`: a certificate says that a broker of this network asks (rule 2)."""
        if not is_proven and not self._directory.is_known(asker):
            return f"{self._name} does not know {asker!r} as a broker"
        if wanted in (self._name, asker) or not self._directory.peer_address(wanted):
            return f"{self._name} does not know where the broker is that is wanted"
        of_asker = [each for each in self._tunnels.values() if each.asker == asker and each.wanted != wanted]
        others = [each for each in self._tunnels.values() if (each.asker, each.wanted) != (asker, wanted)]
        if len(of_asker) >= TUNNELS_PER_BROKER or len(others) >= self._relay.tunnels:
            return f"{self._name} passes on as many connections as it may"
        return ""

    def _end_former(self, asker: Node, wanted: Node) -> None:
        """Rule 3."""
        for tunnel in list(self._tunnels.values()):
            if (tunnel.asker, tunnel.wanted) == (asker, wanted):
                tunnel.end("replaced by a newer tunnel")

    async def _connect(self, tunnel: Tunnel) -> None:
        try:
            address = parse_address(self._directory.peer_address(tunnel.wanted), key="relay")
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await dial(*address, lambda: tunnel)
        except (OSError, TimeoutError, SettingsError) as error:
            reason = f"{self._name} does not reach {tunnel.wanted}: {str(error) or 'no answer'}"
            log.info("no tunnel for %s: %s", tunnel.asker, reason)
            tunnel.near.send(Bye(ByeReason.REFUSED, reason))
            tunnel.near.close(reason)
            return
        finally:
            tunnel.task = None
        if tunnel.near.is_closing:
            tunnel.end("who asked has gone")
            return
        self._counters.tunnels_opened += 1
        log.info("passing on the connection of %s to %s", tunnel.asker, tunnel.wanted)
        tunnel.open(Hello(self._name, self._endpoint.epoch, 0, 0, 1, role=TUNNEL))

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection of a broker that asked has ended."""
        tunnel = self._tunnels.pop(connection, None)
        if tunnel is not None:
            self._counters.tunnel_bytes += tunnel.carried_bytes
            tunnel.end(reason)

    def tick(self, now: float) -> None:
        """Rule 5."""
        limit = max(self._relay.idle_seconds, (1 + HEARTBEATS_MISSED_MAX) * self._settings().heartbeat)
        for tunnel in list(self._tunnels.values()):
            if not tunnel.is_idle:
                tunnel.is_idle, tunnel.carried_at = True, now
            elif now - tunnel.carried_at > limit:
                log.info("the tunnel of %s to %s has carried nothing for %g s", tunnel.asker, tunnel.wanted, limit)
                tunnel.end("idle")

    async def stop(self, *, is_fatal: bool) -> None:
        for tunnel in list(self._tunnels.values()):
            tunnel.end(f"{self._name} is stopping")

    # What operators see --------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        shown = [
            {"from": each.asker, "to": each.wanted, "bytes": each.carried_bytes} for each in self._tunnels.values()
        ]
        return {"tunnels": shown}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        return {"pleach_tunnels": [MetricSample(len(self._tunnels))]}
