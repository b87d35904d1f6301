"""What waits for a client that may see less now: events are taken out of payloads that are queued for it.

    run of e1 e2 e3   ──▶   run of e1 WITHHELD e3'        e3': without what is hidden

Payloads keep their numbers and their number of messages: a client's disk says which message of which payload it has
consumed. The client drops what is withheld.
"""

from __future__ import annotations

from pleach.core.access.rights import Rights, redacted
from pleach.core.events.event import WITHHELD, Event
from pleach.core.messages import EVENT_PREFIXES, Deliver, decode
from pleach.core.messages.runs import Run, encode_event, encode_run, is_run


def withheld(payload: bytes, rights: Rights) -> bytes:
    """The payload with what these rights allow; the same object where that is all of it."""
    events = _delivered(payload)
    shown = [_shown(event, rights) for event in events]
    if all(after is before for after, before in zip(shown, events, strict=True)):
        return payload
    return encode_run(Deliver, len(shown), b"".join(map(encode_event, shown)))


def _delivered(payload: bytes) -> list[Event]:
    if is_run(payload):
        run = Run(payload)
        return run.events() if run.kind is Deliver else []
    if not payload.startswith(EVENT_PREFIXES[Deliver]):
        return []
    return [*decode(payload).events]


def _shown(event: Event, rights: Rights) -> Event:
    if event == WITHHELD:
        return event
    return redacted(event, rights.hidden) if rights.shows(event) else WITHHELD
