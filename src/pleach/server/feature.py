"""Features of a broker process, and the hooks that they have in it.

A feature is whatever watches or steers a broker from beside it: limits, absent clients, reports, probes, leases, the
ring … It overrides the hooks that it needs, and is given the parts that it needs (endpoint, directory, links,
counters), never the node. assemble.py has the list of them.

Rule 1: hooks are called in the order of the list. Who does not override a hook is never called for it: the node and the
        gate collect the overridden ones once (`Features.hooks`), so that an event costs only those who look at events.
Rule 2: hooks of messages are not called while a journal is replayed: features are made when the state is recovered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from pleach.core.effects import Effect, Passed
from pleach.core.events.filter import Filter
from pleach.core.links.batch import Batch
from pleach.core.links.frames import Bye, ByeReason, Frame, Hello
from pleach.core.messages import Message, Node
from pleach.core.messages.runs import Run
from pleach.server.links import Port
from pleach.server.metrics import MetricSample

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="Feature")


class HelloRefusal(NamedTuple):
    """Why a connection is refused; the peer is told."""

    why: ByeReason
    reason: str
    is_at_work: bool = False  # of FENCED: the newer broker is connected here
    view: int = 0  # of FENCED: the newer view that is known; 0: its epoch is newer
    epoch: int = 0  # of FENCED: that epoch, if it was that of a process in memory

    def bye(self, address: str = "") -> Bye:
        bye = Bye(self.why, self.reason, address=address, is_at_work=self.is_at_work)
        return msgspec.structs.replace(bye, view=self.view, epoch=self.epoch)


class Feature:
    """All hooks, each of which does nothing here."""

    frames: ClassVar[tuple[type[Frame], ...]] = ()  # kinds of frames that `frame_received` is called for

    # Connections

    def welcomes(self, broker: Node) -> bool:
        """Whether a broker that nobody has named may come in by the port for peers."""
        return False

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """Why a connection is refused after its first frame."""
        return None

    def connected(self, peer: Node) -> None: ...

    def disconnected(self, peer: Node, now: float) -> None:
        """A link has ended; it is still in the table."""

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        """A frame of one of the kinds in `frames` has arrived on a link."""

    # Messages, at the gate

    def refuse_publish(self) -> str:
        """Why no event is accepted from clients just now; empty: they are accepted."""
        return ""

    def refuse_name(self, sender: Node, wanted: Filter) -> str:
        """Why a further subscription or advertisement is not accepted just now; empty: it is accepted."""
        return ""

    def message_received(self, sender: Node, message: Message) -> None:
        """Called before the broker handles a message."""

    def message_handled(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        """Called after the broker has handled a message, or refused it."""

    def run_received(self, sender: Node, run: Run) -> None:
        """Called before the broker handles a run of events; it may still be handled message by message instead."""

    def run_handled(self, sender: Node, run: Run, passed: Passed) -> None: ...

    def timer_handled(self, effects: Sequence[Effect], now: float) -> None: ...

    def rewrite(self, effects: Sequence[Effect], now: float) -> Sequence[Effect]:
        """What is done instead of these effects. Where this is overridden, events are handled one by one."""
        return effects

    # Batches

    def sealed(self, batch: Batch) -> bool:
        """A batch was sealed; whether this has led to more that must be sealed at once."""
        return False

    def committed(self, batch: Batch, now: float) -> None:
        """A batch with changes of links, observations or ended operations is on disk, if there is one, and was sent."""

    # Time and settings

    def start(self) -> None:
        """The process listens."""

    def before_tick(self, now: float) -> None:
        """Called before sessions notice which peers are silent."""

    def tick(self, now: float) -> None: ...

    def settings_applied(self) -> None:
        """Settings were read again."""

    async def stop(self, *, is_fatal: bool) -> None:
        """The process ends. `is_fatal`: nothing more may be committed or promised."""

    # What operators see

    def unready(self) -> str:
        """Why the broker is not ready; empty: nothing is wrong here."""
        return ""

    def status(self) -> dict[str, object]:
        """Fields of /status."""
        return {}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        """Samples by the name of their gauge (metrics.GAUGES)."""
        return {}


class Features:
    """The features of a broker process, in order; looked up by class."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features = tuple(features)
        self.connected = self.hooks(Feature.connected)
        self.disconnected = self.hooks(Feature.disconnected)
        self.sealed = self.hooks(Feature.sealed)
        self.committed = self.hooks(Feature.committed)
        self.before_tick = self.hooks(Feature.before_tick)
        self.tick = self.hooks(Feature.tick)
        self.of_frames: defaultdict[type[Frame], list[Feature]] = defaultdict(list)
        for feature in self._features:
            for kind in feature.frames:
                self.of_frames[kind].append(feature)

    def __getitem__(self, kind: type[Kind]) -> Kind:
        found = self.get(kind)
        if found is None:
            raise KeyError(kind)
        return found

    def get(self, kind: type[Kind]) -> Kind | None:
        return next((each for each in self._features if isinstance(each, kind)), None)

    def hooks(
        self, hook: Callable[Concatenate[Feature, Parameters], Result]
    ) -> tuple[Callable[Parameters, Result], ...]:
        """A hook (`Feature.tick`) of all features that override it."""
        name = hook.__name__
        return tuple(getattr(each, name) for each in self._features if getattr(type(each), name) is not hook)
