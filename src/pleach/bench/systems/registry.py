"""The systems by their names."""

from __future__ import annotations

from types import MappingProxyType

from pleach.bench.systems.forward_mosquitto import Mosquitto
from pleach.bench.systems.forward_nats import Nats
from pleach.bench.systems.forward_pleach import Pleach
from pleach.bench.systems.forward_rabbitmq import RabbitMQ
from pleach.bench.systems.forward_zenoh import Zenoh
from pleach.bench.systems.moving import MovingSystem
from pleach.bench.systems.moving_mosquitto import MovingMosquitto
from pleach.bench.systems.moving_nats import MovingNats
from pleach.bench.systems.system import System

OURS = Pleach()
DURABLE = Pleach(durable=True)
PEERS: tuple[System, ...] = (Nats(), Zenoh(), Mosquitto(), RabbitMQ())

SYSTEMS: MappingProxyType[str, System] = MappingProxyType({s.name: s for s in (OURS, DURABLE, *PEERS)})

# Those whose clients can move, in a way, by connecting elsewhere.
MOVING: tuple[MovingSystem, ...] = (MovingNats(), MovingMosquitto())
