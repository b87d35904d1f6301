"""The four kinds of steps of a plan, and their effect on a tree (S0 §IV, S1 §4.2).

    SwapStep(a, b, c)                     a–b–c becomes a–c–b: link a–b is replaced by a–c
    ExchangeStep((x, y), (u, v), "path")  link x–y is replaced by u–v; x–y lies on the path from u to v
    AddStep(b, to=a)                      new broker b becomes a leaf at a
    RemoveStep(b)                         leaf b is removed; its clients move to its neighbour

A step that does not fit is refused; one that fits keeps the tree a tree (S0 §V, property 1). A step reads and changes
only links of brokers that it touches, so steps without a common broker are independent.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans.cycle import cycle_of
from pleach.core.overlay.plans.topology import Topology, flaw_of_name
from pleach.core.overlay.registry import CYCLES, EXCHANGES
from pleach.errors import PlanError, StepError, TopologyError


class _Step(msgspec.Struct, frozen=True, tag_field="do", omit_defaults=True, forbid_unknown_fields=True):
    """In files, `do` names the kind, as in scenarios."""


class SwapStep(_Step, frozen=True, tag="swap"):
    """`protocol`: empty for the network's."""

    a: Node
    b: Node
    c: Node
    protocol: str = ""


class ExchangeStep(_Step, frozen=True, tag="exchange"):
    """One step for the whole cycle of both links; swaps do the same hop by hop."""

    remove: tuple[Node, Node]
    add: tuple[Node, Node]
    protocol: str = ""


class AddStep(_Step, frozen=True, tag="add_broker"):
    broker: Node
    to: Node


class RemoveStep(_Step, frozen=True, tag="remove_broker"):
    broker: Node


Step: TypeAlias = SwapStep | ExchangeStep | AddStep | RemoveStep


def spelled(step: Step) -> str:
    match step:
        case SwapStep(a, b, c, protocol):
            return f"swap {a}, {b}, {c}" + (f" by {protocol}" if protocol else "")
        case ExchangeStep((x, y), (u, v), protocol):
            return f"exchange {x}–{y} for {u}–{v} by {protocol}"
        case AddStep(broker, to):
            return f"add {broker} at {to}"
        case RemoveStep(broker):
            return f"remove {broker}"
        case _:
            assert_never(step)


def touched(topology: Topology, step: Step) -> tuple[Node, ...]:
    """The brokers that take part in a fitting step; each takes part in one step at a time."""
    match step:
        case SwapStep(a, b, c):
            return (a, b, c)
        case ExchangeStep(add=(u, v)):
            return topology.path(u, v)
        case AddStep(broker, to):
            return (broker, to)
        case RemoveStep(broker):
            return (broker, *topology.neighbours(broker))
        case _:
            assert_never(step)


def apply(topology: Topology, step: Step) -> Topology:
    """The tree after the step. Raises StepError where it does not fit."""
    match step:
        case SwapStep():
            return _swap(topology, step)
        case ExchangeStep():
            return _exchange(topology, step)
        case AddStep():
            return _add(topology, step)
        case RemoveStep():
            return _remove(topology, step)
        case _:
            assert_never(step)


def _swap(topology: Topology, step: SwapStep) -> Topology:
    a, b, c = step.a, step.b, step.c
    if step.protocol and step.protocol not in EXCHANGES:
        raise StepError(spelled(step), f"{step.protocol!r} is no protocol; there are {', '.join(EXCHANGES)}")
    if a == c:
        raise StepError(spelled(step), f"{a} cannot be both ends of a–b–c; name three brokers in a row")
    for x, y in ((a, b), (b, c)):
        if not topology.has_link(x, y):
            raise StepError(spelled(step), f"there is no link {x}–{y}; {_neighbours(topology, b)}")
    around = topology.around
    changed = {a: around[a] - {b} | {c}, b: around[b] - {a}, c: around[c] | {a}}
    return Topology({**around, **changed})


def _exchange(topology: Topology, step: ExchangeStep) -> Topology:
    if step.protocol not in CYCLES:
        reason = f"{step.protocol!r} exchanges no link at once; {', '.join(CYCLES)} do"
        raise StepError(spelled(step), reason)
    try:
        cycle_of(topology, remove=step.remove, add=step.add)
    except (PlanError, TopologyError) as error:
        raise StepError(spelled(step), str(error)) from None
    around = dict(topology.around)
    for x, y in (step.remove, step.remove[::-1]):
        around[x] -= {y}
    for u, v in (step.add, step.add[::-1]):
        around[u] |= {v}
    return Topology(around)


def _add(topology: Topology, step: AddStep) -> Topology:
    broker, to = step.broker, step.to
    if broker in topology:
        raise StepError(spelled(step), f"{broker} is in the tree already; {_neighbours(topology, broker)}")
    if flaw := flaw_of_name(broker):
        raise StepError(spelled(step), flaw)
    if to not in topology:
        raise StepError(spelled(step), f"{to} is not in the tree; name a broker that is")
    around = topology.around
    return Topology({**around, broker: frozenset({to}), to: around[to] | {broker}})


def _remove(topology: Topology, step: RemoveStep) -> Topology:
    broker = step.broker
    if broker not in topology:
        raise StepError(spelled(step), f"{broker} is not in the tree; name a broker that is")
    if not topology.is_leaf(broker):
        remedy = "swap links away until one is left" if len(topology) > 1 else "the last broker stays"
        raise StepError(spelled(step), f"{broker} is not a leaf ({_neighbours(topology, broker)}); {remedy}")
    (to,) = topology.around[broker]
    rest = {name: around for name, around in topology.around.items() if name != broker}
    return Topology({**rest, to: rest[to] - {broker}})


def _neighbours(topology: Topology, broker: Node) -> str:
    if broker not in topology:
        return f"{broker} is not in the tree"
    return f"neighbours of {broker}: {', '.join(topology.neighbours(broker)) or 'none'}"
