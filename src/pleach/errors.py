"""Everything that Pleach raises on purpose.

An error names what is wrong, where, and what would be right. Whoever catches `PleachError` has caught them all;
the command line turns each into one line on stderr and exit code 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PART_SHOWN_MAX = 8  # brokers named in one sentence


class PleachError(Exception):
    """Root of all errors raised on purpose."""


class InvalidInputError(PleachError):
    """What came from outside is not acceptable; nothing has been changed by it."""


class FilterError(InvalidInputError):
    """A filter text that cannot be used. `column` counts from 1; `str(error)` shows the text with a caret."""

    def __init__(self, reason: str, *, text: str = "", column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.text = text
        self.column = column

    def __str__(self) -> str:
        if not self.text:
            return self.reason
        shown, caret = _window(self.text, self.column)
        return f"{self.reason} (column {self.column})\n  {shown}\n  {' ' * caret}^"


class EventError(InvalidInputError):
    """An event that cannot be published: a bad name, type, value or size."""


class ScenarioError(InvalidInputError):
    """A scenario that cannot be run. `file` and `line` say where, as far as they are known."""

    def __init__(self, reason: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file or 'scenario'}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.reason}"


class LeaseError(InvalidInputError):
    """Periods of leases or rounds that do not fit the network: live subscriptions would run out."""


class RingError(InvalidInputError):
    """Keys, trees or periods that a ring cannot have."""


class JoinError(InvalidInputError):
    """A ring that a broker cannot join: who was asked, why not, and what would help."""

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{name} cannot join the ring: {reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class ColouringError(InvalidInputError):
    """Periods of a coloured network that do not fit it: events would get lost while the colours change."""


class ScheduleError(InvalidInputError):
    """A schedule that cannot be read, or that does not fit the scenario it is replayed on."""


class TraceError(InvalidInputError):
    """A trace that cannot be read or judged."""


class ExperimentError(InvalidInputError):
    """An experiment, a case of it, or a campaign that is not there, or cannot be run as it is."""


class SettingsError(InvalidInputError):
    """A setting that a process cannot start with: where it was given, which key, what is wrong, what would be right."""

    def __init__(self, key: str, reason: str, remedy: str, *, source: str = "") -> None:
        super().__init__(f"{reason}: {remedy}")
        self.key = key
        self.reason = reason
        self.remedy = remedy
        self.source = source

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.source, self.key) if part)
        return f"{place}: {self.reason}; {self.remedy}" if place else f"{self.reason}; {self.remedy}"


class ComponentError(PleachError):
    """A component that cannot be hosted, carried or restored: which one, and why."""

    def __init__(self, component: str, reason: str) -> None:
        super().__init__(f"component {component}: {reason}" if component else reason)
        self.component = component
        self.reason = reason


class HealingError(PleachError):
    """A dead broker that nobody can stand in for: what is missing or contradicts itself, and what would help."""


class TopologyError(InvalidInputError):
    """Brokers and links that are no tree, or a broker that is not in it."""


class CycleError(TopologyError):
    """Links that close a cycle: `cycle` names its brokers, each a neighbour of the next and the last of the first."""

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(f"links close a cycle: {'–'.join([*cycle, cycle[0]])}; leave one of these links out")
        self.cycle = tuple(cycle)


class CutOffError(TopologyError):
    """Brokers that no link joins to the rest: `part` names them."""

    def __init__(self, part: Sequence[str], rest: Sequence[str]) -> None:
        shown = ", ".join(part[:PART_SHOWN_MAX]) + (", …" if len(part) > PART_SHOWN_MAX else "")
        super().__init__(f"no link joins {{{shown}}} to the rest of the tree; add one, for example {part[0]}–{rest[0]}")
        self.part = tuple(part)


class PlanError(InvalidInputError):
    """A plan that cannot be made, or cannot be read."""


class PriceError(InvalidInputError):
    """A list of what links and brokers cost that cannot be used: which file and key, and what would be right."""


class StepError(PlanError):
    """A step that does not fit the tree on which its turn comes. `number` counts from 1; 0 where there is no plan."""

    def __init__(self, step: str, reason: str, *, number: int = 0, source: str = "") -> None:
        place = f"step {number} ({step})" if number else step
        super().__init__(f"{f'{source}: ' if source else ''}{place}: {reason}")
        self.step = step
        self.reason = reason
        self.number = number


class PlanRunError(PleachError):
    """A run of a plan was told what cannot be: names the operation, what was told, and how things stand."""

    def __init__(self, operation: str, told: str, state: str) -> None:
        super().__init__(f"{operation}: '{told}' is not possible now ({state})")
        self.operation = operation
        self.told = told
        self.state = state


class ProtocolError(PleachError):
    """A message that its receiver cannot accept in its state: names receiver, sender, message and state."""

    def __init__(self, node: str, sender: str, message: object, state: str) -> None:
        super().__init__(f"{node}: {type(message).__name__} from {sender} is not legal here ({state})")
        self.node = node
        self.sender = sender
        self.message = message
        self.state = state


class LinkError(PleachError):
    """A machine sends where it has no link: it has not said LinkUp, or has said LinkDown since."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__(f"{sender} has no link to {receiver}; its machine must say LinkUp before it sends there")
        self.sender = sender
        self.receiver = receiver


class FrameError(PleachError):
    """Bytes on a connection that are no frame: the connection is of no use any more."""


class StoreError(PleachError):
    """A data directory that cannot be used: in use, of another node, of a newer version, damaged. Says what helps."""


class StoreFullError(StoreError):
    """No room for a batch, neither on the disk nor in the quota; nothing of it was written, all before it is safe."""


class StoreBrokenError(StoreError):
    """The disk failed. What it holds is known only after a fresh start: the process ends, and nothing is retried."""


class AddressError(InvalidInputError):
    """An address of brokers that cannot be read."""


class ClientError(PleachError):
    """Root of what the client library raises on purpose, bad input apart."""


class ConnectError(ClientError):
    """No broker could be reached: `attempts` says for each address why."""

    def __init__(self, attempts: Mapping[str, str]) -> None:
        tried = "; ".join(f"{address}: {reason}" for address, reason in attempts.items())
        super().__init__(f"no broker answers ({tried}); is it running, and are these its client addresses?")
        self.attempts = dict(attempts)


class RefusedError(ClientError):
    """A broker did not carry out a request; nothing has been changed by it."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} was refused: {reason}")
        self.subject = subject
        self.reason = reason


class PublishRefusedError(RefusedError):
    """The event was not taken over, and nobody will get it."""


class WithdrawnError(ClientError):
    """A subscription was taken back before it was in effect."""

    def __init__(self, subscription: str) -> None:
        super().__init__(f"subscription {subscription!r} was taken back before it was in effect")


class SubscribeRefusedError(RefusedError):
    """The subscription does not exist."""


class AdvertiseRefusedError(RefusedError):
    """The advertisement does not exist."""


class UnknownOutcomeError(ClientError):
    """Whether an event was taken over is not known: its confirmation can no longer come."""

    def __init__(self, event: str, reason: str) -> None:
        super().__init__(f"whether {event} was published is not known: {reason}; publish it again if twice is no harm")
        self.event = event
        self.reason = reason


class ClientFencedError(ClientError):
    """A newer client of the same name is at work; this one is out for good. Give each client a name of its own."""


class SessionLostError(ClientError):
    """The broker has given the session up, and with it events that were on their way. Connect anew to go on."""


class ClientClosedError(ClientError):
    """The client is closed; nothing can be asked of it any more."""


class LivenessError(PleachError):
    """A run that did not become quiet within its bound: an empty queue was promised and never came."""


class LiveError(PleachError):
    """A network of processes that could not be started or stopped as it should."""


class UnreachableError(PleachError):
    """The operators' port of a broker that does not answer as it should."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}; is the broker running, and is this its admin address?")
        self.address = address
        self.reason = reason


class SurveyError(PleachError):
    """The tree cannot be known: brokers that do not answer, or disagree about a link."""

    def __init__(self, what: str, reasons: str) -> None:
        super().__init__(
            f"{what} ({reasons}); `pleach overlay show` draws what can be seen; try again when it is whole"
        )


class MissingPartError(PleachError):
    """An optional part is not installed; the text says which command brings it."""


class SparkError(PleachError):
    """Spark could not start, or could not finish a job for reasons of its own; what it said is part of the text."""


class LakeError(InvalidInputError):
    """A lake that cannot be read or written: which table, run and file, what is wrong, what helps."""


SHOWN_COLUMNS = 76


def _window(text: str, column: int) -> tuple[str, int]:
    """Cut `text` to a readable piece around `column`; returns the piece and the caret's offset in it."""
    flat = text.replace("\n", " ").replace("\t", " ")
    position = min(max(column - 1, 0), len(flat))
    start = max(0, position - SHOWN_COLUMNS // 2)
    return flat[start : start + SHOWN_COLUMNS], position - start


def place_and_reason(error: Exception) -> tuple[str, str]:
    """What msgspec says of input that does not fit: where, as a dotted path (empty at the top), and why."""
    reason, _, place = str(error).partition(" - at `$")
    return place.rstrip("`").lstrip("."), reason
