"""What waits for a client that may see less now: events are taken out of payloads that are queued for it.

    run of e1 e2 e3   ──▶   run of e1 WITHHELD e3'        e3': without what is hidden

Payloads keep their numbers and their number of messages: a client's disk says which message of which payload it has
consumed. The client drops what is withheld.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from pleach.core.access.rights import Rights, redacted
from pleach.core.events.event import WITHHELD, Event
from pleach.core.messages import EVENT_PREFIXES, Deliver, decode
from pleach.core.messages.runs import Run, encode_event, encode_run, is_run

VERDICTS_REMEMBERED = 8_192  # by attributes, which events tend to repeat
_WITHHELD = encode_event(WITHHELD)
_decode_attributes = msgspec.msgpack.Decoder(dict[str, Any]).decode


class _Verdict(Enum):
    SHOWN = "shown"
    REDACTED = "redacted"
    HIDDEN = "hidden"


class Withholding:
    """Payloads as rights allow them; the same object where that is all of one."""

    def __init__(self, rights: Rights) -> None:
        self._rights = rights
        self._verdicts: dict[bytes, _Verdict] = {}

    def __call__(self, payload: bytes) -> bytes:
        if is_run(payload):
            return self._of_run(payload, Run(payload))
        return self._of_one(payload) if payload.startswith(EVENT_PREFIXES[Deliver]) else payload

    def _of_one(self, payload: bytes) -> bytes:
        (event,) = decode(payload).events
        if event == WITHHELD:
            return payload
        shown = redacted(event, self._rights.hidden) if self._rights.shows(event) else WITHHELD
        return payload if shown is event else encode_run(Deliver, 1, encode_event(shown))

    def _of_run(self, payload: bytes, run: Run) -> bytes:
        if run.kind is not Deliver:
            return payload
        verdicts = [self._judge(each.id, bytes(each.attributes)) for each in run.glimpses()]
        if all(verdict is _Verdict.SHOWN for verdict in verdicts):
            return payload
        parts = (self._part(run, place, verdict) for place, verdict in enumerate(verdicts))
        return encode_run(Deliver, run.count, b"".join(parts))

    def _judge(self, event_id: tuple[str, int, int], attributes: bytes) -> _Verdict:
        if event_id == WITHHELD.id:
            return _Verdict.SHOWN
        verdict = self._verdicts.get(attributes)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_REMEMBERED:
                self._verdicts.clear()
            verdict = self._verdicts[attributes] = self._judge_attributes(_decode_attributes(attributes))
        return verdict

    def _judge_attributes(self, attributes: dict[str, Any]) -> _Verdict:
        if not self._rights.subscribe.matches(attributes):
            return _Verdict.HIDDEN
        has_hidden = any(name in attributes for name in self._rights.hidden)
        return _Verdict.REDACTED if has_hidden else _Verdict.SHOWN

    def _part(self, run: Run, place: int, verdict: _Verdict) -> bytes:
        match verdict:
            case _Verdict.SHOWN:
                return run.bytes_of(place, place + 1)
            case _Verdict.REDACTED:
                event = msgspec.msgpack.decode(run.bytes_of(place, place + 1), type=Event)
                return encode_event(redacted(event, self._rights.hidden))
            case _Verdict.HIDDEN:
                return _WITHHELD
