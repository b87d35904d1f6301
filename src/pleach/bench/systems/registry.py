"""The registry of systems by name."""

from __future__ import annotations

from types import MappingProxyType

from pleach.bench.systems.jetstream import JetStream
from pleach.bench.systems.mosquitto import Mosquitto, MovingMosquitto
from pleach.bench.systems.moving import MovingSystem
from pleach.bench.systems.nats import MovingNats, Nats
from pleach.bench.systems.pleach import Pleach
from pleach.bench.systems.rabbitmq import RabbitMQ
from pleach.bench.systems.system import System
from pleach.bench.systems.zenoh import Zenoh

OURS = Pleach()
DURABLE = Pleach(copies=1)
REPLICATED = Pleach(copies=2)
SECURED = Pleach(tls=True)
GUARDED = Pleach(tls=True, rights=True)
PEERS: tuple[System, ...] = (Nats(), Zenoh(), Mosquitto(), RabbitMQ())

# Those that confirm an event once it is stored, on one machine or more.
JETSTREAM_ONE, JETSTREAM_THREE = JetStream(1), JetStream(3)
JETSTREAM_SYNCED = JetStream(3, sync_always=True)
STORING: tuple[System, ...] = (JETSTREAM_ONE, JETSTREAM_THREE, JETSTREAM_SYNCED)

SYSTEMS: MappingProxyType[str, System] = MappingProxyType(
    {s.name: s for s in (OURS, DURABLE, REPLICATED, SECURED, GUARDED, *PEERS, *STORING)}
)

# Systems whose clients can move by reconnecting to another server.
MOVING: tuple[MovingSystem, ...] = (MovingNats(), MovingMosquitto())
