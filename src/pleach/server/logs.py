"""Logs of a broker process, on stderr: a line for people, or a JSON object for machines."""

from __future__ import annotations

import logging
import sys

import msgspec

from pleach.server.settings import LogLevel

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
        text = _bounded(record.message)
        record.message = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
        return super().formatMessage(record)


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
        return msgspec.json.encode(entry).decode()


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
