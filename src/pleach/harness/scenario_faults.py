"""[stabilise] of a scenario on real processes: its delays there, and the steps that damage state.

The delay of a link is what its proxy adds, and what the processes need. The bounds take both into account, unless the
scenario gives a `delay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from pleach.core.messages import Node
from pleach.core.stabilise.lease_bounds import Delays, check
from pleach.core.stabilise.lease_settings import Renewal
from pleach.core.stabilise.rebuild_bounds import check_rounds
from pleach.errors import InvalidInputError, LeaseError
from pleach.harness.network import LiveNetwork
from pleach.net.http_client import Answer, ask
from pleach.scenario import steps
from pleach.scenario.model import Scenario, Stabiliser
from pleach.scenario.stabilise_settings import delays_of, mending_of, rounds_of
from pleach.scenario.values import Span
from pleach.server.stabilise_settings import PROCESS_SECONDS
from pleach.trace import NETWORK, RecordKind

GARBLE_SECONDS = 0.25  # on a real link few messages are under way at one moment
UNLEASED = "this network does not repair damaged state; give it [stabilise]"
# The kinds of a scenario and those of real processes, where rebuilding waits for evidence.
LIVE_KINDS: Mapping[Stabiliser, Stabiliser] = MappingProxyType(
    {
        Stabiliser.LEASES: Stabiliser.LEASES,
        Stabiliser.REBUILD: Stabiliser.REBUILD_PACED,
        Stabiliser.REBUILD_PACED: Stabiliser.REBUILD_PACED,
    }
)


def for_processes(scenario: Scenario) -> Scenario:
    """The scenario with its delays on real processes; raises InvalidInputError where it cannot be run."""
    _refuse_backups(scenario)
    if scenario.stabilise is None:
        return scenario
    if scenario.stabilise.renewal is Renewal.RELAYED:
        raise InvalidInputError(f'relayed renewals need one clock for all; set renewal = "{Renewal.HOP_BY_HOP}"')
    if scenario.stabilise.kind not in LIVE_KINDS or scenario.stabilise.cyclic:
        only = f'leave `cyclic` out, or set kind = "{Stabiliser.LEASES}"'
        raise InvalidInputError(
            f"{scenario.stabilise.kind}: real processes support leases and paced rebuilding on trees; {only}"
        )
    delays = delays_of(scenario)
    delay = scenario.stabilise.delay or Span(delays.low, delays.high + PROCESS_SECONDS)
    slower = replace(
        scenario, stabilise=replace(scenario.stabilise, delay=delay, kind=LIVE_KINDS[scenario.stabilise.kind])
    )
    try:
        known = delays_of(slower)
        slowest = Delays(known.low, max(known.high, known.low + PROCESS_SECONDS), known.hops)
        if scenario.stabilise.kind.rebuilds:
            check_rounds(rounds_of(slower), known)
        else:
            check(scenario.stabilise.lease, scenario.routing.value, slowest)
    except LeaseError as error:
        raise InvalidInputError(f"on real processes: {error}") from None
    return slower


def _refuse_backups(scenario: Scenario) -> None:
    """The data directory of a process has the sessions, too: old ones would ask peers for what those have deleted."""
    for step in scenario.steps:
        if isinstance(step, steps.Restart) and step.state_from is not None:
            raise InvalidInputError(
                f"restart of {step.broker} at {step.at:g} s: processes are not restarted from a backup; leave "
                '`state_from` out and add a step `corrupt` with what = "all", or run it by `pleach sim`'
            )


class FaultTarget(Protocol):
    """The run that faults happen to."""

    scenario: Scenario
    network: LiveNetwork
    seed: int

    @property
    def now(self) -> float: ...

    @property
    def faults(self) -> LiveStateFaults: ...

    def refuse(self, step: steps.Step, reason: str) -> None: ...

    def record(self, kind: RecordKind, node: Node, *, detail: str = "", peer: str = "") -> None: ...


class LiveStateFaults:
    def __init__(self, run: FaultTarget) -> None:
        self._run = run
        self._count = 0
        self._mending = mending_of(run.scenario)

    def outage(self, fault: str, disturbance: str) -> str:
        """The detail of an outage, which keeps tables from being mended."""
        if self._mending:
            self._mending.begins(disturbance, self._run.now)
        return fault

    def outage_over(self, end: str, disturbance: str) -> str:
        """The detail of its end."""
        return end + (self._mending.ends(disturbance, self._run.now) if self._mending else "")

    def ends(self, disturbance: str) -> None:
        """A record of its own says so, where something is being mended."""
        if self._mending and (since := self._mending.ends(disturbance, self._run.now)):
            self._run.record(RecordKind.FAULT, NETWORK, detail=f"end of {disturbance}{since}")

    def _struck_detail(self, fault: str, *, lasts: float = 0.0) -> str:
        return self._mending.struck(fault, self._run.now, lasts=lasts) if self._mending else fault

    async def strike(self, step: steps.Corrupt | steps.Garble) -> None:
        self._count += 1
        reason = self._why_not(step) or await self._struck(step)
        if reason:
            self._run.refuse(step, reason)

    def _why_not(self, step: steps.Corrupt | steps.Garble) -> str:
        if self._run.scenario.stabilise is None:
            return UNLEASED
        nodes = [step.broker] if isinstance(step, steps.Corrupt) else step.link
        network = self._run.network
        missing = [node for node in nodes if node not in network.running]
        if isinstance(step, steps.Garble) and any(node not in network.members for node in nodes):
            return "on real processes only links between brokers are garbled"
        return f"broker {missing[0]} is not running" if missing else ""

    async def _struck(self, step: steps.Corrupt | steps.Garble) -> str:
        """Why it was not done; empty if it was. It is recorded first: its consequences come later in the trace."""
        seed = 1_000 * self._run.seed + self._count
        match step:
            case steps.Corrupt(broker=broker, what=what, share=share):
                detail = self._struck_detail(f"corrupt {what}")
                self._run.record(RecordKind.FAULT, broker, detail=detail)
                return await self._post(broker, "corrupt", {"what": what, "share": share, "seed": seed})
            case steps.Garble(link=link, share=share):
                detail = self._struck_detail("garble", lasts=GARBLE_SECONDS)
                self._run.record(RecordKind.FAULT, NETWORK, peer="-".join(link), detail=detail)
                body = {"share": share, "seconds": GARBLE_SECONDS, "seed": seed}
                reasons = [await self._post(a, "garble", {**body, "peer": b}) for a, b in (link, link[::-1])]
                return next(filter(None, reasons), "")

    async def _post(self, broker: Node, action: str, body: dict[str, object]) -> str:
        answer: Answer = await ask(self._run.network.directory.admin[broker], f"/debug/{action}", body)
        return "" if answer.is_ok else f"{answer.value['error']}; {answer.value['remedy']}"
