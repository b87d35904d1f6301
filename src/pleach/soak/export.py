"""A soak as a scenario, for the simulator: its network, its clients, and what happened to it, at the same times.

What a simulator has no words for (slow disks, brokers that move to other machines) stands as a comment at its time,
and so does what the language of scenarios refuses, such as a client that is sent to a broker that has left by then.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pleach.scenario.model import Scenario
from pleach.scenario.positions import FlawError
from pleach.scenario.steps import Step
from pleach.scenario.timeline import check_steps, in_order
from pleach.scenario.write import Remark, scenario_text
from pleach.soak.actions import Destroy, steps_of, told
from pleach.soak.log import Began, Entry, settings_in
from pleach.soak.settings import LATENCY, scenario_of

MARGIN_SECONDS = 60.0  # after the last step, for what is under way


def exported(entries: Sequence[Entry]) -> str:
    """The scenario as TOML. Raises InvalidInputError for a log without settings."""
    began = [entry for entry in entries if isinstance(entry, Began)]
    fresh = tuple(entry.action.fresh for entry in began if isinstance(entry.action, Destroy))
    ground = scenario_of(settings_in(entries))
    assert ground.standby is not None
    taken: list[Step] = []
    remarks: list[Remark] = []
    for entry in began:
        steps = list(steps_of(entry.action, entry.at, entry.homes, LATENCY))
        taken += steps
        if not steps:
            remarks.append(Remark(entry.at, told(entry.action)))
    end = max([step.at for step in taken], default=0.0) + MARGIN_SECONDS
    standby = replace(ground.standby, machines=fresh)
    whole = replace(ground, standby=standby, steps=in_order(taken), duration=max(end, ground.duration))
    possible, refused = _possible(whole, whole.steps)
    return scenario_text(replace(whole, steps=possible), [*remarks, *refused])


def _possible(scenario: Scenario, steps: Sequence[Step]) -> tuple[tuple[Step, ...], list[Remark]]:
    """The steps that fit, one after the other, and those that do not, with the reason."""
    left, refused = list(steps), []
    while True:
        try:
            check_steps(replace(scenario, steps=tuple(left)))
        except FlawError as flaw:
            index = flaw.path[1]
            assert isinstance(index, int)
            step = left.pop(index)
            refused.append(Remark(step.at, f"{type(step).__name__}: {flaw.reason}"))
        else:
            return tuple(left), refused
