"""A row of moves as people and the oracle want it: as a schedule, and as the records of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pleach.core.messages import (
    Advertise,
    Deliver,
    Forward,
    Install,
    Installed,
    Marked,
    Message,
    Publish,
    Published,
    PublishRefused,
    Separator,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Withdraw,
)
from pleach.explore.transitions import FireTimerAt
from pleach.explore.world import World
from pleach.scenario.schedule import Act, Answer, HandOver, ScheduleStep
from pleach.scenario.script import describe
from pleach.trace import NETWORK, Record, Recorder, RecordKind

# Schedules ---------------------------------------------------------------------------------------------------


def steps_of(world: World, moves: Sequence[int]) -> tuple[ScheduleStep, ...]:
    """The moves, from the start of the world on, with words for readers."""
    steps = []
    state = world.start
    for place, number in enumerate(moves, start=1):
        match world.move(number):
            case HandOver(sender, receiver):
                steps.append(ScheduleStep(deliver=(sender, receiver), message=told(world.message(state, number))))
            case Act(actor):
                steps.append(ScheduleStep(act=actor, does=describe(world.action(state, number))))
            case Answer(client):
                steps.append(ScheduleStep(answer=client, does=describe(world.action(state, number))))
            case FireTimerAt(node):
                steps.append(ScheduleStep(ring=(node, world.timer(state, number))))
        if place < len(moves):  # the last move may be one that breaks
            state = world.take(state, number)
    return tuple(steps)


def told(message: Message) -> str:
    """A message in a few words."""
    name = type(message).__name__
    match message:
        case Publish(event) | Forward(event) | Deliver(event):
            return f"{name} {event.id} {_spelled(event.attributes)}"
        case Published(event_id) | PublishRefused(event_id):
            return f"{name} {event_id}"
        case Install(layer, number, _, wanted):
            return f"{name} {number} {wanted.text} ({layer.name.lower()})"
        case Withdraw(layer, _, wanted):
            return f"{name} {wanted.text} ({layer.name.lower()})"
        case Installed(layer, number):
            return f"{name} {number} ({layer.name.lower()})"
        case Subscribe(subscription, wanted):
            return f"{name} {wanted.text} ({subscription})"
        case Advertise(_, advertised):
            return f"{name} {advertised.text}"
        case Unsubscribe(subscription) | Subscribed(subscription) | Unsubscribed(subscription):
            return f"{name} {subscription}"
        case _:
            return f"{name}{_told_of_a_reconfiguration(message)}"


def _told_of_a_reconfiguration(message: Message) -> str:
    match message:
        case Marked(_, mark, _, Forward(event)):
            return f" {mark.name.lower()} {event.id} {_spelled(event.attributes)}"
        case Separator(_, origin, is_relayed):
            return f" of {origin}, relayed" if is_relayed else f" of {origin}"
        case _:
            return ""


def _spelled(attributes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in attributes.items())


# Records -----------------------------------------------------------------------------------------------------


def records_of(world: World, moves: Sequence[int]) -> list[Record]:
    """What clients saw, as a trace: the prologue at time 0, the k-th move at time k, and a drain at the end."""
    scenario = world.script.scenario
    recorder = Recorder(f"explored-{scenario.name}")
    recorder.add(RecordKind.STATE, at=0.0, node=NETWORK, detail=f"ordering={scenario.ordering.value}")
    for node, seen in world.prologue:
        recorder.observe(0.0, node, seen)
    state = world.start
    for place, number in enumerate(moves, start=1):
        for node, seen in world.observed(state, number):
            recorder.observe(float(place), node, seen)
        state = world.take(state, number)
    recorder.add(RecordKind.DRAIN, at=float(len(moves)), node=NETWORK)
    return recorder.records
