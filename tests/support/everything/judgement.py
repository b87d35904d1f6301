"""What must hold of a case.

the oracle's      nothing lost, doubled, spurious, out of FIFO or causal order; probes included
HANG              the run comes to rest; every request of a client is answered, every operation concluded; no broker
                  is locked or waits, no client is halted; and all of it within some number of steps, and of seconds
LATE              nothing came to rest only because somebody gave up waiting
TREE              brokers form one tree, tables of neighbours agree, every client is at one broker
PROBE             each probe has reached every client that has a subscription which matches it
COMPONENT         components are at work, each at one broker, and their sums are right
RING              after a rest each finger is the true successor of its key, and look-ups are short
RAISED            nothing raises
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from pleach.core.client.machine import ClientMachine
from pleach.errors import LivenessError, PleachError
from pleach.scenario.model import Routing
from pleach.scenario.steps import Drain, PublishStep
from pleach.sim.run import SimResult
from pleach.trace import Record, RecordKind, judge
from pleach.trace.first_pass import Suspension, survey
from support.contract.judgement import disagreements, told_anything
from support.everything.case import Case
from support.everything.run import CaseRun
from support.hosting.component_networks import wrong_sums
from support.liveness import KEPT_EARLY, open_at_brokers, unanswered_clients
from support.mobility.moving_clients import misplaced
from support.overlay.judgement import NOT_ENDED, confirmed_too_often, no_tree

SECONDS_MAX = 20  # of the processor, for one case
FLAWS_SHOWN_MAX = 8
SERVES = "serves at "  # in the trace, of a broker and the machine
REQUESTS = frozenset({RecordKind.PUBLISH, RecordKind.SUBSCRIBE, RecordKind.UNSUBSCRIBE})
SLOW_SECONDS = 45.0  # of virtual time: a search takes ten at most, and nine requests to a locked broker forty


class Fault(StrEnum):
    """Besides the rules of the oracle."""

    HANG = "hang"
    LATE = "late"
    TREE = "tree"
    PROBE = "probe"
    COMPONENT = "component"
    RING = "ring"
    RAISED = "raised"
    UNUSABLE = "unusable"


@dataclass
class CaseJudgement:
    """`flaws` says in words what does not hold, `faults` counts by kind; both empty means that all holds."""

    case: Case
    flaws: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    operations: int = 0
    refused: int = 0
    published: int = 0
    deliveries: int = 0
    destroyed: int = 0  # machines
    promoted: int = 0  # brokers that serve on another machine than before
    is_mended: bool = True  # what was damaged, as the network can tell; else less is asked of the end
    rests_after: float = 0.0  # seconds of virtual time, from the last fault, or the end of the timeline

    @property
    def is_slow(self) -> bool:
        """Nothing is stuck, but only since somebody gave up waiting."""
        return self.rests_after > SLOW_SECONDS

    @property
    def seed(self) -> int:
        return self.case.seed

    def blame(self, fault: str, flaws: Sequence[str]) -> None:
        if flaws:
            self.faults[fault] += len(flaws)
            self.flaws += [f"{fault}: {flaw}" for flaw in flaws[:FLAWS_SHOWN_MAX]]


def judge_case(case: Case, plant: Callable[[CaseRun], None] = lambda _: None) -> CaseJudgement:
    """`plant`: a bug for the run, to see whether it is found."""
    judgement = CaseJudgement(case)
    try:
        with _seconds_at_most(SECONDS_MAX):
            run = CaseRun(case)
            plant(run)
            _look_into(judgement, run, run.finish())
    except (LivenessError, TimeoutError) as error:
        judgement.blame(Fault.HANG, [str(error)])
    except (PleachError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
        judgement.blame(Fault.RAISED, [f"{type(error).__name__}: {error}"])
    return judgement


@contextmanager
def _seconds_at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"it is not over after {seconds} s of computing")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _look_into(judgement: CaseJudgement, run: CaseRun, result: SimResult) -> None:
    verdict = judge(result.records)
    judgement.published, judgement.deliveries = verdict.counts.published, verdict.counts.deliveries
    judgement.operations = sum(record.detail.endswith(": done") for record in result.records)
    judgement.refused = len(result.refusals)
    judgement.destroyed = len(run.standbys.destroyed) if run.standbys else 0
    judgement.promoted = _promotions(result.records)
    if verdict.unusable:
        judgement.blame(Fault.UNUSABLE, [verdict.unusable])
    for violation in verdict.violations:
        judgement.blame(str(violation.rule), [str(violation)])
    judgement.flaws = judgement.flaws[:FLAWS_SHOWN_MAX]
    judgement.rests_after = _rests_after(run, result)
    judgement.blame(Fault.HANG, _not_ended(run, result))
    judgement.blame(Fault.LATE, _too_late(judgement.rests_after))
    damaged = survey(result.records).suspensions
    judgement.blame(Fault.RING, run.steward.flaws() if run.steward else [])
    judgement.is_mended = all(each.end <= run.mended_by for each in damaged)
    if not judgement.is_mended:
        return
    unanswered = [each for each in unanswered_clients(run.clients) if not (damaged and KEPT_EARLY in each)]
    waiting = open_at_brokers({name: run.brokers[name] for name in run.up})
    judgement.blame(Fault.HANG, [*waiting, *unanswered, *_unacknowledged(result.records, damaged)])
    judgement.blame(Fault.TREE, _wrong_tree(run))
    judgement.blame(Fault.PROBE, _unheard(run))
    judgement.blame(Fault.COMPONENT, [] if damaged else _wrong_components(run))


def _promotions(records: Sequence[Record]) -> int:
    served: dict[str, str] = {}
    count = 0
    for record in records:
        if record.kind is RecordKind.STATE and record.detail.startswith(SERVES):
            count += served.get(record.node, record.detail) != record.detail
            served[record.node] = record.detail
    return count


# Liveness -------------------------------------------------------------------------------------------------------


def _not_ended(run: CaseRun, result: SimResult) -> list[str]:
    flaws = [] if result.quiet else ["the run did not end quiet"]
    flaws += [f"{each.step} at {each.at:g}: {each.reason}" for each in result.refusals if each.reason == NOT_ENDED]
    flaws += _without_copies(run)
    down = [name for name in sorted(run.brokers) if name not in run.up]
    return flaws + [f"{name} is down" for name in down]


def _without_copies(run: CaseRun) -> list[str]:
    """Brokers that have not all the copies that there are machines for."""
    if run.standbys is None or not run.standbys.is_short:
        return []
    return [f"not all brokers have their copies: {[str(run.standbys.view_of(name)) for name in sorted(run.brokers)]}"]


def _rests_after(run: CaseRun, result: SimResult) -> float:
    """Seconds from the last fault to the first drain that follows it."""
    faults = [record.at for record in result.records if record.kind is RecordKind.FAULT]
    last = max([run.scenario.duration, *faults])
    drains = [record.at for record in result.records if record.kind is RecordKind.DRAIN and record.at >= last]
    return min(drains, default=result.ended_at) - last


def _too_late(seconds: float) -> list[str]:
    return [f"it came to rest only after {seconds:.0f} s"] if seconds > SLOW_SECONDS else []


def _unacknowledged(records: Sequence[Record], damaged: Sequence[Suspension]) -> list[str]:
    """What clients asked for and never heard of again; not what they asked for while messages may be lost."""
    events: dict[str, None] = {}
    asked: dict[tuple[str, str, str], None] = {}
    for record in records:
        key = (record.who, record.subscription)
        if record.kind in REQUESTS and any(each.may_lose(record.at, record.at) for each in damaged):
            continue
        match record.kind:
            case RecordKind.PUBLISH:
                events[record.event] = None
            case RecordKind.PUBLISH_ACK | RecordKind.PUBLISH_FAIL:
                events.pop(record.event, None)
            case RecordKind.SUBSCRIBE:
                asked["subscribe", *key] = None
            case RecordKind.SUBSCRIBE_ACK:
                asked.pop(("subscribe", *key), None)
            case RecordKind.UNSUBSCRIBE:
                asked.pop(("subscribe", *key), None)  # its answer may come or not
                asked["unsubscribe", *key] = None
            case RecordKind.UNSUBSCRIBE_ACK:
                asked.pop(("unsubscribe", *key), None)
    lost = [f"{event} was never acknowledged" for event in events]
    return [*lost, *(f"{who} {what} {name} was never acknowledged" for what, who, name in asked)]


# The tree, the probes, the components -----------------------------------------------------------------------------


def _wrong_tree(run: CaseRun) -> list[str]:
    brokers = run.brokers
    flaws = no_tree(brokers)
    if not flaws and not run.rebuilds:
        floods = run.scenario.routing is Routing.FLOODING
        flaws += told_anything(brokers) if floods else disagreements(brokers)
    if run.scenario.stabilise is None:
        flaws += confirmed_too_often(run.recorder.records)
    return flaws + misplaced(brokers, {name: client.broker for name, client in run.clients.items()})


def _unheard(run: CaseRun) -> list[str]:
    """Whoever has a subscription must get a probe that it matches, if the network was at rest when that was published.

    This is asked besides the oracle, which does not count subscriptions that were never confirmed.
    """
    records = run.recorder.records
    sent = [index for index, record in enumerate(records) if record.kind is RecordKind.PUBLISH]
    probed = sent[len(sent) - len(probes(run.case)) :]
    if not probed or not _is_at_rest(records[: probed[0]]):
        return []
    heard = {(record.event, record.who) for record in records if record.kind is RecordKind.DELIVER}
    failed = {record.event for record in records if record.kind is RecordKind.PUBLISH_FAIL}
    return [
        f"{probe.event} {probe.attributes} has not reached {name} at {client.broker}"
        for probe in (records[index] for index in probed)
        for name, client in sorted(run.clients.items())
        if probe.event not in failed and (probe.event, name) not in heard and _is_owed(probe, client)
    ]


def _is_at_rest(records: Sequence[Record]) -> bool:
    """Whether nobody has subscribed since the last drain."""
    kinds = [record.kind for record in records if record.kind in (RecordKind.DRAIN, RecordKind.SUBSCRIBE)]
    return bool(kinds) and kinds[-1] is RecordKind.DRAIN


def _is_owed(probe: Record, client: ClientMachine) -> bool:
    if probe.who == client.name and not client.own_events:
        return False
    return any(wanted.matches(json.loads(probe.attributes)) for wanted in client._state.subscriptions.values())


def probes(case: Case) -> list[PublishStep]:
    steps = case.scenario.steps
    last_drain = max((i for i, step in enumerate(steps) if isinstance(step, Drain)), default=len(steps))
    return [step for step in steps[last_drain:] if isinstance(step, PublishStep)]


def _wrong_components(run: CaseRun) -> list[str]:
    flaws: list[str] = []
    for component in run.case.beside.components:
        name = component.id
        at, known = run.places(name), [each for each in run.up if name in run.brokers[each].sessions]
        if len(at) != 1 or known != at:
            flaws.append(f"{name} is at {at}, and known to {known}")
        elif (resident := run.brokers[at[0]].hosting.here[name]).has_failed or resident.client.is_halted:
            flaws.append(f"{name} does not work: {resident.complaint or 'halted'}")
        flaws += wrong_sums(run.recorder.records, name)[0]
    return flaws
