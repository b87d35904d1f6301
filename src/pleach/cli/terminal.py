"""The console of all commands: what brokers and clients have said is shown, and controls nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rich import console, markup
from rich.progress import Progress, ProgressColumn
from rich.segment import Segment

from pleach.net.printable import printable

LAYOUT = "\n\t"


class Console(console.Console):
    """Escapes control characters in whatever is rendered; styles and cursor movements are apart from the text."""

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep=LAYOUT))


def progress_on_stderr(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    """Removed at the end; nothing is shown where stderr is no terminal, which would get an empty line."""
    errors = Console(stderr=True)
    return Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal)


class Unrepeated(logging.Filter):
    """Drops a line that is the one before again: a client that tries for seconds is refused for one reason."""

    def __init__(self) -> None:
        super().__init__()
        self._before = ""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_new, self._before = text != self._before, text
        return is_new


def escape(text: str) -> str:
    """For a name or a reason within markup: it stays in its line."""
    return markup.escape(printable(text))
