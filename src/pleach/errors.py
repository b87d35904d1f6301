"""All exceptions that Pleach raises on purpose.

The text of an error names what is wrong, where, and what would be right. `PleachError` is the base of all of them; the
command line prints it as one line on stderr and exits with its code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

EXIT_UNUSABLE, EXIT_OUTDATED = 2, 74  # exit codes of the command line
PART_SHOWN_MAX = 8  # brokers that are named in one text


class PleachError(Exception):
    """Base of all errors that are raised on purpose."""

    exit_code: ClassVar[int] = EXIT_UNUSABLE


class InvalidInputError(PleachError):
    """Input that is not acceptable; nothing was changed."""


class FilterError(InvalidInputError):
    """An unusable filter text. `column` counts from 1; `str(error)` shows the text with a caret."""

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
    """A scenario that cannot be run. `file` and `line` say where, if they are known."""

    def __init__(self, reason: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file or 'scenario'}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.reason}"


class LeaseError(InvalidInputError):
    """Periods of leases or rounds that do not fit the network: subscriptions in use would expire."""


class RingError(InvalidInputError):
    """Keys, trees or periods that are not valid for a ring."""


class JoinError(InvalidInputError):
    """A broker cannot join a ring: which broker, the reason, and the remedy."""

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{name} cannot join the ring: {reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class FoundingError(InvalidInputError):
    """The files of a new network cannot be written: what was given or where, the reason, and the remedy."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        super().__init__(f"{what}: {reason}; {remedy}")
        self.what = what
        self.reason = reason
        self.remedy = remedy


class ColouringError(InvalidInputError):
    """Periods of a coloured network that do not fit it: events would be lost while the colours change."""


class ScheduleError(InvalidInputError):
    """A schedule that cannot be read, or does not fit its scenario."""


class TraceError(InvalidInputError):
    """A trace that cannot be read or judged."""


class ExperimentError(InvalidInputError):
    """An experiment, case or campaign that does not exist, or cannot be run."""


class SettingsError(InvalidInputError):
    """An invalid setting: its source, its key, the reason, and the remedy."""

    def __init__(self, key: str, reason: str, remedy: str, *, source: str = "") -> None:
        super().__init__(f"{reason}: {remedy}")
        self.key = key
        self.reason = reason
        self.remedy = remedy
        self.source = source

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.source, self.key) if part)
        return f"{place}: {self.reason}; {self.remedy}" if place else f"{self.reason}; {self.remedy}"


class AccessError(InvalidInputError):
    """Credentials, certificates or access files that are not valid: what is wrong, and the remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class CertificateError(InvalidInputError):
    """An unusable certificate, key or membership list: the file, the reason, and the remedy."""

    def __init__(self, file: str, reason: str, remedy: str) -> None:
        super().__init__(f"{file}: {reason}; {remedy}" if file else f"{reason}; {remedy}")
        self.file = file
        self.reason = reason
        self.remedy = remedy


class AuditError(PleachError):
    """The audit log cannot be opened or written: the file, the reason, and the remedy."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"the audit log {file} cannot be written: {reason}; make room, or set [access] audit")
        self.file = file
        self.reason = reason


class ComponentError(PleachError):
    """A component that cannot be hosted, moved or restored: its name, and the reason."""

    def __init__(self, component: str, reason: str) -> None:
        super().__init__(f"component {component}: {reason}" if component else reason)
        self.component = component
        self.reason = reason


class TopologyError(InvalidInputError):
    """Brokers and links that do not form a tree, or a broker that is not in the tree."""


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
    """An unusable list of costs of links and brokers: the file, the key, and the remedy."""


class StepError(PlanError):
    """A step that does not fit the tree that it is applied to. `number` counts from 1; 0 where there is no plan."""

    def __init__(self, step: str, reason: str, *, number: int = 0, source: str = "") -> None:
        place = f"step {number} ({step})" if number else step
        super().__init__(f"{f'{source}: ' if source else ''}{place}: {reason}")
        self.step = step
        self.reason = reason
        self.number = number


class PlanRunError(PleachError):
    """A report to a run of a plan that does not fit its state: the operation, the report, and the state."""

    def __init__(self, operation: str, told: str, state: str) -> None:
        super().__init__(f"{operation}: '{told}' is not possible now ({state})")
        self.operation = operation
        self.told = told
        self.state = state


class ProtocolError(PleachError):
    """A message that is not legal in the state of its receiver: receiver, sender, message and state."""

    def __init__(self, node: str, sender: str, message: object, state: str) -> None:
        super().__init__(f"{node}: {type(message).__name__} from {sender} is not legal here ({state})")
        self.node = node
        self.sender = sender
        self.message = message
        self.state = state


class LinkError(PleachError):
    """A machine sends to a node without a link: it has not emitted LinkUp, or has emitted LinkDown since."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__(f"{sender} has no link to {receiver}; its machine must emit LinkUp before it sends there")
        self.sender = sender
        self.receiver = receiver


class FrameError(PleachError):
    """Bytes on a connection that are not a frame: the connection has to be closed."""


class PromotionError(PleachError):
    """A machine cannot run a broker, or a broker cannot move to it, as an operator wants; the text says why."""


class StandbyMessageError(PleachError):
    """Bytes between the machines of a view that are no message of theirs: the connection has to be closed."""


class StandbyError(PleachError):
    """A simulated run in which the rules of standbys do not hold: what was confirmed is not where it must be."""


class StoreError(PleachError):
    """An unusable data directory: in use, of another node, of a newer version, or damaged; the text has the remedy."""


class StoreDamagedError(StoreError):
    """Damage on disk: the file, the table and the row if they are known, the reason, and the remedy."""

    def __init__(self, file: object, reason: str, remedy: str, *, table: str = "", row: str = "") -> None:
        place = f"table {table}, row {row}: " if row else f"table {table}: " if table else ""
        super().__init__(f"{file} is damaged: {place}{reason}. {remedy}")
        self.file = str(file)
        self.table = table
        self.row = row
        self.reason = reason


class OutdatedStoreError(StoreError):
    """A data directory that was put back from an old copy: neighbours know what it has forgotten."""

    exit_code = EXIT_OUTDATED

    def __init__(self, directory: object, reason: str) -> None:
        remedy = "Put back the latest one if there is one; else move it away, and start an empty one with --replace"
        super().__init__(f"{directory} is an old copy: {reason}. {remedy} (docs/how-to/troubleshooting.md)")


class StoreFullError(StoreError):
    """No space for a batch, on the disk or in the quota; nothing of it was written, everything before it is safe."""


class AstrayError(StoreError):
    """A record, or a part of a fill, that does not follow what the replica has; nothing of it was written."""


class RecordError(StoreError):
    """Bytes that are no record of a store, or rows that do not fit those of the replica; nothing was written."""


class StoreBrokenError(StoreError):
    """The disk failed. Its contents are known only after a restart: the process ends, and nothing is retried."""


class AddressError(InvalidInputError):
    """An invalid address of brokers."""


class ClientError(PleachError):
    """Base of all errors of the client library, except for bad input."""


class ConnectError(ClientError):
    """No broker could be reached: `attempts` has the reason for each address."""

    def __init__(self, attempts: Mapping[str, str]) -> None:
        tried = "; ".join(f"{address}: {reason}" for address, reason in attempts.items())
        super().__init__(f"no broker answers ({tried}); is it running, and are these its client addresses?")
        self.attempts = dict(attempts)


class AccessDeniedError(ClientError):
    """A broker's access file does not let this client in; `reason` is the broker's."""

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"{client!r} is denied: {reason}")
        self.reason = reason


class TlsError(ConnectError, ConnectionError):
    """A connection that TLS, or the certificate of the other side, does not permit: the reason, and the remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__({})  # there is no address yet
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"TLS: {self.reason}; {self.remedy}"


class RefusedError(ClientError):
    """A broker refused a request; nothing was changed."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} was refused: {reason}")
        self.subject = subject
        self.reason = reason


class PublishRefusedError(RefusedError):
    """The broker did not accept the event; it is delivered to nobody."""


class WithdrawnError(ClientError):
    """A subscription was withdrawn before it was in effect."""

    def __init__(self, subscription: str) -> None:
        super().__init__(f"subscription {subscription!r} was withdrawn before it was in effect")


class SubscribeRefusedError(RefusedError):
    """The subscription does not exist."""


class AdvertiseRefusedError(RefusedError):
    """The advertisement does not exist."""


class UnknownOutcomeError(ClientError):
    """It is not known whether an event was published: its confirmation can no longer arrive."""

    def __init__(self, event: str, reason: str) -> None:
        super().__init__(
            f"whether {event} was published is not known: {reason}; publish it again if a duplicate does no harm"
        )
        self.event = event
        self.reason = reason


class ClientFencedError(ClientError):
    """A newer client of the same name has taken over; this one has ended. Give each client a name of its own."""


class SessionLostError(ClientError):
    """The broker has ended the session; events may be lost. Connect again to go on."""


class ClientClosedError(ClientError):
    """The client is closed."""


class LivenessError(PleachError):
    """A run that did not become quiet within its bound."""


class LiveError(PleachError):
    """A network of processes that could not be started or stopped."""


class UnreachableError(PleachError):
    """The operators' port of a broker does not answer, or something else answers there."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}; is the broker running, and is this its admin address?")
        self.address = address
        self.reason = reason


class DeniedError(PleachError):
    """A broker does not do for this operator what it was asked for: no log-in, or a verb is missing."""

    def __init__(self, address: str, reason: str, remedy: str) -> None:
        super().__init__(f"{address}: {reason}; {remedy}" if remedy else f"{address}: {reason}")
        self.address = address
        self.reason = reason
        self.remedy = remedy


class SurveyError(PleachError):
    """The tree is not known: brokers do not answer, or disagree about a link; or what is asked for is not in it."""

    def __init__(
        self,
        what: str,
        reasons: str = "",
        remedy: str = "`pleach overlay show` draws the brokers that answer; try again when all do",
    ) -> None:
        super().__init__(f"{what} ({reasons}); {remedy}" if reasons else f"{what}; {remedy}")


class MissingPartError(PleachError):
    """An optional part is not installed; the text has the command that installs it."""


class SparkError(PleachError):
    """Spark could not start, or could not finish a job; the text contains its message."""


class LakeError(InvalidInputError):
    """A lake that cannot be read or written: the table, run and file, the reason, and the remedy."""


SHOWN_COLUMNS = 76


def _window(text: str, column: int) -> tuple[str, int]:
    """The part of `text` around `column`, and the offset of the caret in it."""
    flat = text.replace("\n", " ").replace("\t", " ")
    position = min(max(column - 1, 0), len(flat))
    start = max(0, position - SHOWN_COLUMNS // 2)
    return flat[start : start + SHOWN_COLUMNS], position - start


def place_and_reason(error: Exception) -> tuple[str, str]:
    """The two parts of a msgspec validation error: a dotted path (empty at the top), and the reason."""
    reason, _, place = str(error).partition(" - at `$")
    return place.rstrip("`").lstrip("."), reason
