"""Planted bugs: brokers that are wrong in a known way, to show that the tools find it.

A planted broker wraps a right one and spoils what it does; the core has no flags for this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send
from pleach.core.messages import Forward, Install, Installed, Message, Node, Unsubscribe, Unsubscribed, Withdraw
from pleach.core.routing.router import Router
from pleach.errors import ScenarioError


class BrokerMachine(Protocol):
    """What drivers need of a broker."""

    @property
    def name(self) -> Node: ...

    @property
    def router(self) -> Router: ...

    @property
    def operation(self) -> str:
        """The operation that it is locked for; empty where it is free."""
        ...

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]: ...

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]: ...

    def resume(self, *, now: float) -> Sequence[Effect]: ...

    def capture(self) -> bytes: ...

    def restore(self, data: bytes) -> None: ...


# What a spoilt broker does about a message; it may ask the right one.
Spoil: TypeAlias = Callable[[Broker, Node, Message, float], Sequence[Effect]]


class PlantedBroker:
    def __init__(self, broker: Broker, spoil: Spoil) -> None:
        self._broker = broker
        self._spoil = spoil

    @property
    def name(self) -> Node:
        return self._broker.name

    @property
    def router(self) -> Router:
        return self._broker.router

    @property
    def operation(self) -> str:
        return self._broker.operation

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        return self._spoil(self._broker, sender, message, now)

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return self._broker.handle_timer(name, now=now)

    def resume(self, *, now: float) -> Sequence[Effect]:
        return self._broker.resume(now=now)

    def capture(self) -> bytes:
        return self._broker.capture()

    def restore(self, data: bytes) -> None:
        self._broker.restore(data)


def overtaking_unsubscription(broker: Broker, sender: Node, message: Message, now: float) -> Sequence[Effect]:
    """A withdrawal overtakes what was sent before it: what a wide filter hid is told too late."""
    effects = broker.handle(sender, message, now=now)
    first = [effect for effect in effects if _sends(effect, Withdraw)]
    return [*first, *(effect for effect in effects if not _sends(effect, Withdraw))]


def forgotten_reexport(broker: Broker, sender: Node, message: Message, now: float) -> Sequence[Effect]:
    """Withdrawing a wide filter does not bring back what it hid."""
    effects = broker.handle(sender, message, now=now)
    if isinstance(message, Unsubscribe | Withdraw):
        return [effect for effect in effects if not _sends(effect, Install)]
    return effects


def hasty_ack(broker: Broker, sender: Node, message: Message, now: float) -> Sequence[Effect]:
    """An install is answered before the installs further on are."""
    effects = [e for e in broker.handle(sender, message, now=now) if not _sends(e, Installed)]
    if isinstance(message, Install):
        return [Send(sender, Installed(message.layer, message.number)), *effects]
    return effects


def doubled_forward(broker: Broker, sender: Node, message: Message, now: float) -> Sequence[Effect]:
    """An event goes to each neighbour twice."""
    effects = broker.handle(sender, message, now=now)
    return [again for e in effects for again in ((e, e) if _sends(e, Forward) else (e,))]


def deaf_ear(broker: Broker, sender: Node, message: Message, now: float) -> Sequence[Effect]:
    """An unsubscription is confirmed and not carried out."""
    if isinstance(message, Unsubscribe):
        return [Send(sender, Unsubscribed(message.subscription))]
    return broker.handle(sender, message, now=now)


def _sends(effect: Effect, kind: type[Message]) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, kind)


def _planted(spoil: Spoil) -> Callable[[Broker], BrokerMachine]:
    return partial(PlantedBroker, spoil=spoil)


PLANTS: Mapping[str, Callable[[Broker], BrokerMachine]] = MappingProxyType(
    {
        spoil.__name__.replace("_", "-"): _planted(spoil)
        for spoil in (overtaking_unsubscription, forgotten_reexport, hasty_ack, doubled_forward, deaf_ear)
    }
)


def plant(name: str, broker: Broker) -> BrokerMachine:
    """The broker with the bug of this name; as it is where the name is empty."""
    if not name:
        return broker
    if name not in PLANTS:
        raise ScenarioError(f"there is no plant {name!r}; {', '.join(sorted(PLANTS))} are known")
    return PLANTS[name](broker)
