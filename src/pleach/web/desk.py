"""Plans drafted and carried out from the dashboard.

    draft(wish) ──▶ shown to the operator ──▶ carry_out(name) ──▶ a run, seen in every picture

Rule 1: what is carried out is the very plan that was shown. Each step is refused by its brokers if it does not fit.
Rule 2: a draft is carried out once.
Rule 3: one run at a time, so that nobody's plan spoils another's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from pleach.errors import PlanError, PleachError
from pleach.live.apply import StepEnd, Watch
from pleach.live.operations import State, fresh_name
from pleach.overlay.plans import Difference, Operation, Plan, describe
from pleach.overlay.plans.steps import spelled
from pleach.web.picture import Picture, Run, RunStep
from pleach.web.source import Draft, Source
from pleach.web.wishes import Wish

DRAFTS_MAX = 32  # the oldest is forgotten
RUNS_MAX = 16
STEPS_SHOWN_MAX = 500

log = logging.getLogger(__name__)


class Desk:
    """`on_change`: called when a run has begun, come further, or ended."""

    def __init__(self, source: Source, on_change: Callable[[], None]) -> None:
        self._source = source
        self._on_change = on_change
        self._drafts: dict[str, Draft] = {}
        self._runs: dict[str, Run] = {}
        self._carrying: asyncio.Task[None] | None = None

    def is_busy(self) -> bool:
        return self._carrying is not None and not self._carrying.done()

    def complete(self, picture: Picture) -> Picture:
        return msgspec.structs.replace(picture, runs=dict(self._runs))

    async def draft(self, wish: Wish) -> dict[str, Any]:
        draft = await self._source.draft(wish)
        name = fresh_name()
        self._drafts[name] = draft
        while len(self._drafts) > DRAFTS_MAX:
            del self._drafts[next(iter(self._drafts))]
        return {"draft": name, **shown(draft.plan)}

    def carry_out(self, name: str) -> dict[str, Any]:
        """Begin; how it goes is in the pictures. Raises PlanError where it cannot be begun."""
        if self.is_busy():
            raise PlanError("a plan is being carried out from here; wait until it has ended")
        draft = self._drafts.pop(name, None)
        if draft is None:
            raise PlanError("this plan was carried out, or is too old; make it anew")
        steps = [RunStep(spelled(step), "waiting") for step in draft.plan.steps]
        self._runs[name] = Run(
            title=describe(draft.plan)[0],
            state="running",
            started_at=time.time(),
            steps={str(i): step for i, step in enumerate(steps[:STEPS_SHOWN_MAX])},
        )
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]
        self._carrying = asyncio.create_task(self._carry(name, draft))
        self._on_change()
        return {"run": name}

    async def _carry(self, name: str, draft: Draft) -> None:
        index = {spelled(step): str(i) for i, step in enumerate(draft.plan.steps)}
        watch = Watch(
            started=lambda operation: self._step(name, index, operation, "running"),
            ended=lambda end: self._step(name, index, end.operation, _word(end), end.reason),
        )
        try:
            outcome = await draft.carry_out(watch)
            self._change(name, state="done" if outcome.complete else "incomplete")
        except PleachError as error:
            self._change(name, state="incomplete", title=f"{self._runs[name].title}: {error}")
        except Exception as error:  # a bug of ours must not end a broker (board.py, rule 4)
            log.exception("the dashboard could not carry out a plan")
            self._change(name, state="incomplete", title=f"{self._runs[name].title}: it failed: {error}")
        self._on_change()

    def _step(self, name: str, index: dict[str, str], operation: Operation, state: str, reason: str = "") -> None:
        text = spelled(operation.step)
        steps = {**self._runs[name].steps, index[text]: RunStep(text, state, reason)}
        self._change(name, steps=steps)
        self._on_change()

    def _change(self, name: str, **fields: Any) -> None:
        self._runs[name] = msgspec.structs.replace(self._runs[name], **fields)


def shown(plan: Plan) -> dict[str, Any]:
    """A plan for people: what it is in words, and what becomes of the tree."""
    changed = Difference.of(planned=plan.start, found=plan.result)
    return {
        "lines": describe(plan),
        "links_removed": changed.links_missing,
        "links_added": changed.links_extra,
        "brokers_removed": changed.brokers_missing,
        "brokers_added": changed.brokers_extra,
    }


def _word(end: StepEnd) -> str:
    return "unknown" if end.state is State.RUNNING else end.state.value
