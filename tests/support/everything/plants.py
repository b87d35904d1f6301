"""Planted bugs, to show that the judgement of a case finds them: a checker that has never failed has not been tested.

losing K        the first message of kind K that a broker sends in a run does not arrive
doubling K      … arrives twice
stale disk      a broker that crashes has the state on its disk that it had some time ago
those of scenario/planted_bugs.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from pleach.core.effects import Effect, Send
from pleach.core.messages import Forward, Node
from pleach.core.messages.base import Message
from pleach.scenario import planted_bugs
from pleach.scenario.planted_bugs import PlantedBroker, Spoil
from support.everything.run import CaseRun

Plant: TypeAlias = Callable[[CaseRun], None]
STALE_EVERY = 0.1  # seconds


def losing(kind: type[Message], number: int = 1) -> Plant:
    return partial(_tamper, kind, number, lambda _: ())


def doubling(kind: type[Message], number: int = 1) -> Plant:
    return partial(_tamper, kind, number, lambda send: (send, send))


def _tamper(kind: type[Message], number: int, change: Callable[[Send], Sequence[Send]], run: CaseRun) -> None:
    """Message number so-and-so of its kind, over the whole run."""
    count, perform = 0, run.sim.perform

    def changed(effects: Sequence[Effect]) -> Iterator[Effect]:
        nonlocal count
        for effect in effects:
            is_one = isinstance(effect, Send) and type(effect.message) is kind
            count += is_one
            yield from change(effect) if is_one and count == number else (effect,)  # type: ignore[arg-type]

    def tampered(node: Node, effects: Sequence[Effect]) -> None:
        perform(node, list(changed(effects)) if node in run.brokers else effects)

    run.sim.perform = tampered  # type: ignore[method-assign]


def stale_disk(run: CaseRun) -> None:
    crash = run.outages.crash
    states: dict[Node, bytes] = {}

    def back_up() -> None:
        states.update((name, run.brokers[name].capture()) for name in run.up)

    def crashed(broker: Node) -> None:
        crash(broker)
        run.disks[broker] = states.get(broker, run.disks[broker])

    run.outages.crash = crashed  # type: ignore[method-assign]
    for number in range(int(run.scenario.duration / STALE_EVERY)):
        run.sim.at(number * STALE_EVERY, back_up)


def spoilt(spoil: Spoil) -> Plant:
    def plant(run: CaseRun) -> None:
        wrapped = run.wrapped
        run.wrapped = lambda broker: wrapped(PlantedBroker(broker, spoil))  # type: ignore[method-assign]
        for name, broker in run.brokers.items():
            run.sim._machines[name] = PlantedBroker(broker, spoil)

    return plant


SPOILT: Mapping[str, Plant] = {
    spoil.__name__: spoilt(spoil)
    for spoil in (
        planted_bugs.overtaking_unsubscription,
        planted_bugs.forgotten_reexport,
        planted_bugs.hasty_ack,
        planted_bugs.doubled_forward,
        planted_bugs.deaf_ear,
    )
}
OTHERS: Mapping[str, Plant] = {"stale disk": stale_disk, "doubling Forward": doubling(Forward)}
