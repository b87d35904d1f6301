"""Logs of a broker process, on stderr: a line for people, or a JSON object for machines."""

from __future__ import annotations

import json
import logging
import sys
from types import TracebackType
from typing import TypeAlias

from pleach.net.printable import printable
from pleach.server.settings import LogLevel

ExceptionInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

ROOT = "pleach"
MESSAGE_CHARACTERS_MAX = 1_000


def _bounded(text: str) -> str:
    """Text from peers may not fill the disk."""
    return (
        text if len(text) <= MESSAGE_CHARACTERS_MAX else f"{text[:MESSAGE_CHARACTERS_MAX]}… ({len(text):,} characters)"
    )


class PlainFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as the library has it
        """Text from peers may not forge lines, or control a terminal."""
        record.message = printable(_bounded(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - as the library has it
        """Exceptions quote what peers have sent: indented, no line of theirs looks like one of the log."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _bounded(record.getMessage()),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry).replace("\x7f", "\\u007f")  # in ASCII: nothing controls a terminal


def set_up_logs(name: str, level: LogLevel, *, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = PlainFormatter(f"%(asctime)s %(levelname)-7s {name.replace('%', '%%')}: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else plain)
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.propagate = False
    set_log_level(level)


def set_log_level(level: LogLevel) -> None:
    logging.getLogger(ROOT).setLevel(level.value.upper())
