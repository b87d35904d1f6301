"""Plan files: plans as JSON, to be reviewed, stored, and applied later.

    {"version": 1,
     "from": [["a", "b"], ["b", "c"]],
     "steps": [{"do": "swap", "a": "a", "b": "b", "c": "c"}],
     "to": [["a", "c"], ["b", "c"]]}

A tree is its list of links; a tree of one broker is `[["a"]]`. Files are validated by replaying the steps: a file whose
steps do not lead from one tree to the other is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans.difference import TreeDifference
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.steps import Step
from pleach.core.overlay.plans.topology import Topology
from pleach.errors import PlanError, StepError, TopologyError, place_and_reason

VERSION = 1
BYTES_MAX = 32_000_000


class _Version(msgspec.Struct):
    version: int


class _File(msgspec.Struct, frozen=True, rename={"start": "from", "result": "to"}, forbid_unknown_fields=True):
    version: int
    start: list[list[Node]]
    steps: list[Step]
    result: list[list[Node]]


def encode_plan(plan: Plan) -> bytes:
    """One line per link and step, so that two versions of a plan can be compared line by line."""
    file = _File(VERSION, _links(plan.start), list(plan.steps), _links(plan.result))
    parts: dict[str, Any] = msgspec.to_builtins(file)
    shown = {key: _lines(value) if isinstance(value, list) else str(value) for key, value in parts.items()}
    return ("{\n" + ",\n".join(f' "{key}": {value}' for key, value in shown.items()) + "\n}\n").encode()


def decode_plan(data: bytes, *, source: str = "plan") -> Plan:
    """The inverse of `encode_plan`. Raises PlanError, which names `source` and the place in it."""
    if len(data) > BYTES_MAX:
        raise PlanError(f"{source}: {len(data):,} bytes; a plan has at most {BYTES_MAX:,}")
    file = _decoded(data, source)
    start = _tree(file.start, f"{source}: from")
    result = _tree(file.result, f"{source}: to")
    try:
        plan = Plan.of(start, file.steps)
    except StepError as error:
        raise StepError(error.step, error.reason, number=error.number, source=source) from None
    if plan.result != result:
        difference = TreeDifference.of(planned=result, found=plan.result)
        raise PlanError(f"{source}: to: the steps lead to another tree ({difference}); make the plan anew")
    return plan


def _decoded(data: bytes, source: str) -> _File:
    """Check the version first: the format of other versions is unknown."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise PlanError(f"{source}: version {version}; this release reads version {VERSION}, so make the plan anew")
        return msgspec.json.decode(data, type=_File)
    except msgspec.ValidationError as error:
        where, reason = place_and_reason(error)
        raise PlanError(f"{source}: {f'{where}: ' if where else ''}{reason}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"{source}: invalid JSON: {error}; give a file written by `pleach overlay plan`") from None


def _links(topology: Topology) -> list[list[Node]]:
    return [list(pair) for pair in topology.links] or [list(topology.brokers)]


def _tree(links: list[list[Node]], place: str) -> Topology:
    if len(links) == 1 and len(links[0]) == 1:
        return _checked([], links[0], place)
    pairs = []
    for index, names in enumerate(links):
        if len(names) != 2:
            raise PlanError(f'{place}[{index}]: {len(names)} names; a link is two brokers, such as ["a", "b"]')
        pairs.append((names[0], names[1]))
    return _checked(pairs, [], place)


def _checked(links: list[tuple[Node, Node]], brokers: list[Node], place: str) -> Topology:
    try:
        return Topology.of(links, brokers)
    except TopologyError as error:
        raise PlanError(f"{place}: {error}") from None


def _lines(values: list[Any]) -> str:
    return "[" + ",".join(f"\n  {msgspec.json.encode(value).decode()}" for value in values) + "]"
