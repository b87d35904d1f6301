"""Everything that Pleach raises on purpose.

An error names what is wrong, where, and what would be right. Whoever catches `PleachError` has caught them all;
the command line turns each into one line on stderr and exit code 2.
"""

from __future__ import annotations


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


class ScheduleError(InvalidInputError):
    """A schedule that cannot be read, or that does not fit the scenario it is replayed on."""


class TraceError(InvalidInputError):
    """A trace that cannot be read or judged."""


class ProtocolError(PleachError):
    """A message that its receiver cannot accept in its state: names receiver, sender, message and state."""

    def __init__(self, node: str, sender: str, message: object, state: str) -> None:
        super().__init__(f"{node}: {type(message).__name__} from {sender} is not legal here ({state})")
        self.node = node
        self.sender = sender
        self.message = message
        self.state = state


class FrameError(PleachError):
    """Bytes on a connection that are no frame: the connection is of no use any more."""


class LivenessError(PleachError):
    """A run that did not become quiet within its bound: an empty queue was promised and never came."""


class MissingPartError(PleachError):
    """An optional part is not installed; the text says which command brings it."""


SHOWN_COLUMNS = 76


def _window(text: str, column: int) -> tuple[str, int]:
    """Cut `text` to a readable piece around `column`; returns the piece and the caret's offset in it."""
    flat = text.replace("\n", " ").replace("\t", " ")
    position = min(max(column - 1, 0), len(flat))
    start = max(0, position - SHOWN_COLUMNS // 2)
    return flat[start : start + SHOWN_COLUMNS], position - start
