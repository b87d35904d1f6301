"""Reconfigurations that this broker was asked for: what they are, their phase, how they ended.

The broker that is asked reports how an operation ends: a of a swap, the first end of the link that an exchange adds,
and a broker that joins or leaves itself. The last ones are kept, so that an operator who lost the connection can ask
later. After a restart they are known as far as the journal goes back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pleach.core.effects import Concluded, Observe, Observed
from pleach.core.links.batch import Batch, Journalled
from pleach.core.messages import (
    OPERATOR,
    HostingRequest,
    Node,
    OperatorRequest,
    RequestAbandon,
    RequestAdd,
    RequestExchange,
    RequestHost,
    RequestMove,
    RequestRemove,
    RequestSwap,
    RequestUnhost,
    asked_name,
    decode,
)
from pleach.core.overlay.abandonment import OpenOperation
from pleach.operate.operation import OpenStatus, OperationState, OperationStatus, OperationStep
from pleach.server.feature import Feature

HISTORY_MAX = 256
STEPS_MAX = 256

log = logging.getLogger(__name__)

Request: TypeAlias = OperatorRequest | HostingRequest | RequestAbandon


class Operations(Feature):
    """`ask`: gives a request to the broker; raises ProtocolError where no protocol is there for it.

    `counts`: how many messages the broker has held and flooded so far.
    """

    def __init__(self, ask: Callable[[Request], None], counts: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> None:
        self._ask = ask
        self._counts = counts
        self.steps: deque[OperationStep] = deque(maxlen=STEPS_MAX)  # the oldest first
        self.states_seen = 0  # states of operations that this broker was in, including those asked for elsewhere
        self._known: dict[str, OperationStatus] = {}  # the oldest first
        self._since: dict[str, float] = {}  # when this process first heard of an operation, the oldest first
        self._began_at = time.time()
        self._awaited: dict[str, asyncio.Future[Concluded]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> OperationStatus:
        return self._known[name]

    @property
    def recent(self) -> Sequence[OperationStatus]:
        """The latest first."""
        return list(reversed(self._known.values()))

    @property
    def running(self) -> int:
        return sum(operation.state is OperationState.RUNNING for operation in self._known.values())

    def request(self, request: Request) -> asyncio.Future[Concluded]:
        """Ask the broker for an operation; the future says how it ended, if this process is still running then.

        Raises ProtocolError where no protocol is there for it.
        """
        future = self._awaited[request.operation] = asyncio.get_running_loop().create_future()
        self._note(request)
        try:
            self._ask(request)
        except BaseException:
            del self._awaited[request.operation], self._known[request.operation]
            raise
        return future

    async def ended(self, name: str, seconds_max: float) -> OperationStatus:
        """An operation, once it has ended, or when the time is up."""
        future = self._awaited.get(name)
        if future is not None:
            await asyncio.wait([future], timeout=seconds_max)
        return self._known[name]

    def opened(self, open_operations: Iterable[OpenOperation], is_up: Callable[[Node], bool]) -> list[OpenStatus]:
        """Operations that the broker takes part in, as operators are told of them."""
        return [self._opened(each, is_up) for each in open_operations]

    def _opened(self, each: OpenOperation, is_up: Callable[[Node], bool]) -> OpenStatus:
        name = asked_name(each.name)
        known = self._known.get(name)
        since = known.asked_at if known else self._since.get(name, self._began_at)
        waits_for = {peer: is_up(peer) for peer in each.waits_for}
        age = max(0.0, round(time.time() - since, 3))
        return OpenStatus(name, each.phase, known.what if known else "", age, waits_for, each.why_not)

    # What has become of them -----------------------------------------------------------------------------------

    def recall(self, journal: Iterable[Journalled], concluded: Sequence[Concluded]) -> None:
        """Take over what a former process was asked for, and what came of it."""
        for entry in journal:
            if entry.peer == OPERATOR and entry.payload is not None:
                message = decode(entry.payload)
                if isinstance(message, Request):
                    self._note(message)
        for end in concluded:
            self.conclude(end)

    def committed(self, batch: Batch, now: float) -> None:
        for seen in batch.observed:
            if not seen.client:
                self.observe(seen)
            elif seen.kind is Observed.STATE:
                log.warning("%s", seen.detail)
        for end in batch.concluded:
            self.conclude(end)

    def observe(self, seen: Observe) -> None:
        self.states_seen += seen.kind is Observed.STATE
        if seen.phase is None:
            return
        name, phase = asked_name(seen.phase.operation), seen.phase.phase
        self._since.setdefault(name, time.time())
        if len(self._since) > HISTORY_MAX:
            del self._since[next(iter(self._since))]
        self.steps.append(OperationStep(self.states_seen, time.time(), name, phase, *self._counts()))
        operation = self._known.get(name)
        if operation is not None and operation.state is OperationState.RUNNING:
            operation.phase = phase

    def conclude(self, end: Concluded) -> None:
        log.info("operation %s: %s", end.operation, end.refusal or "done")
        operation = self._known.get(end.operation)
        if operation is not None and operation.state is OperationState.RUNNING:
            operation.state = OperationState.REFUSED if end.refusal else OperationState.DONE
            operation.reason, operation.ended_at = end.refusal, time.time()
        future = self._awaited.pop(end.operation, None)
        if future is not None and not future.done():
            future.set_result(end)

    def _note(self, request: Request) -> None:
        self._known.pop(request.operation, None)
        self._known[request.operation] = OperationStatus(request.operation, *described(request))
        over = [name for name, known in self._known.items() if known.state is not OperationState.RUNNING]
        for name in over[: max(0, len(self._known) - HISTORY_MAX)]:
            del self._known[name]


def described(request: Request) -> tuple[str, tuple[Node, ...]]:
    match request:
        case RequestSwap(_, a, b, c):
            return "published swap" if request.is_published else "swap", (a, b, c)
        case RequestExchange(_, path, cut, protocol):
            return f"exchange {path[cut]}–{path[cut + 1]} by {protocol}", tuple(path)
        case RequestAdd(_, to):
            return "add", (to,)
        case RequestRemove(_, broker):
            return "remove", (broker,)
        case RequestMove(_, client, path):
            return f"move {client}", tuple(path)
        case RequestHost(_, component, kind):
            return f"host {component}, a {kind}", ()
        case RequestUnhost(_, component):
            return f"end {component}", ()
        case RequestAbandon(_, abandoned):
            return f"abandon {abandoned}", ()
