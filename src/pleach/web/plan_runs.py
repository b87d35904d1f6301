"""Plans that are drafted and carried out from the dashboard.

    draft(request) ──▶ shown to the operator ──▶ carry_out(name) ──▶ a run, shown in every snapshot

Rule 1: the plan that was shown is carried out, and no other. Brokers refuse steps that do not fit.
Rule 2: a draft is carried out once.
Rule 3: one run at a time, so that plans do not interfere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pleach.access.principals import Verb
from pleach.errors import DeniedError, PlanError, PleachError
from pleach.operate.operation import fresh_name
from pleach.server.http.caller import Caller
from pleach.web.drafts import Draft
from pleach.web.forms import DashboardRequest, Move, verb_of
from pleach.web.snapshot import Run, RunStep, Snapshot
from pleach.web.source import Source

DRAFTS_MAX = 32  # the oldest is forgotten
RUNS_MAX = 16
STEPS_SHOWN_MAX = 500

log = logging.getLogger(__name__)


class KeptDraft(NamedTuple):
    """`tenant`: of who has made it; others of a tenant cannot carry it out."""

    draft: Draft
    verb: Verb
    tenant: str

    def is_for(self, caller: Caller) -> bool:
        return caller.may(self.verb) and (caller.is_of_network or caller.tenant == self.tenant)


class PlanRuns:
    """`on_change`: called when a run has begun or ended; in between, `is_busy` is true."""

    def __init__(self, source: Source, on_change: Callable[[], None]) -> None:
        self._source = source
        self._on_change = on_change
        self._drafts: dict[str, KeptDraft] = {}
        self._runs: dict[str, Run] = {}
        self._carrying: asyncio.Task[None] | None = None

    def is_busy(self) -> bool:
        return self._carrying is not None and not self._carrying.done()

    def complete(self, snapshot: Snapshot) -> Snapshot:
        return msgspec.structs.replace(snapshot, runs=dict(self._runs))

    async def draft(self, request: DashboardRequest, caller: Caller) -> dict[str, Any]:
        """Raises DeniedError for an operator of a tenant, but for a client of that tenant."""
        if not caller.is_of_network and not (isinstance(request, Move) and caller.sees(request.client)):
            reason = f"it is not about a client of tenant {caller.tenant!r}"
            raise DeniedError("this plan", reason, "ask an operator of the network")
        draft = await self._source.draft(request)
        name = fresh_name()
        self._drafts[name] = KeptDraft(draft, verb_of(request), caller.tenant)
        while len(self._drafts) > DRAFTS_MAX:
            del self._drafts[next(iter(self._drafts))]
        return {"draft": name, **msgspec.to_builtins(draft.shown)}

    def carry_out(self, name: str, caller: Caller) -> dict[str, Any]:
        """Begin a run; snapshots show its progress. Raises PlanError where it cannot begin, DeniedError."""
        if self.is_busy():
            raise PlanError("a plan is being carried out from here; wait until it has ended")
        kept = self._drafts.get(name)
        if kept is None:
            raise PlanError("this plan was carried out, or has expired; make it anew")
        if not kept.is_for(caller):
            raise DeniedError(
                "this plan", f"it needs the verb {str(kept.verb)!r}", "ask an operator who may carry it out"
            )
        del self._drafts[name]
        draft = kept.draft
        steps = [RunStep(step, "waiting") for step in draft.steps[:STEPS_SHOWN_MAX]]
        self._runs[name] = Run(
            title=draft.shown.lines[0],
            state="running",
            started_at=time.time(),
            steps={str(i): step for i, step in enumerate(steps)},
        )
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]
        self._carrying = asyncio.create_task(self._carry(name, draft))
        self._on_change()
        return {"run": name}

    async def _carry(self, name: str, draft: Draft) -> None:
        try:
            left = await draft.carry_out(lambda number, state, reason: self._step(name, number, state, reason))
            self._end(name, left)
        except PleachError as error:
            self._end(name, str(error))
        except Exception as error:  # a bug of the dashboard must not end a broker (stream.py, rule 4)
            log.exception("the dashboard could not carry out a plan")
            self._end(name, f"it failed: {error}")
        self._on_change()

    def _step(self, name: str, number: int, state: str, reason: str) -> None:
        run = self._runs[name]
        if step := run.steps.get(str(number)):
            steps = {**run.steps, str(number): RunStep(step.text, state, reason)}
            self._runs[name] = msgspec.structs.replace(run, steps=steps)

    def _end(self, name: str, left: str) -> None:
        """`left`: what was not done, and why; empty: nothing."""
        run = self._runs[name]
        title = f"{run.title}: {left}" if left else run.title
        self._runs[name] = msgspec.structs.replace(run, state="incomplete" if left else "done", title=title)
