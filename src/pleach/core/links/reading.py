"""Reading a session without being its connection: for a client that no process stands for all the time.

    reader                                   broker
      Hello (role "reader", the client's name and epoch, the broker's epoch)  ──▶  ◀── Hello, for the broker's name
      Read after 40, survey      ──▶   ◀── Extent 57            how far there is something
      Read after 40, up to 57    ──▶   ◀── Data 41 … Data 52, Extent 52       as much as one answer may hold
      Ack 57                     ──▶   ◀── Extent 57            now the broker need not keep them any longer

Rule 1: reading changes nothing. Payloads keep their numbers and stay until they are confirmed, so that whoever fails
        halfway asks again and gets the same. Any number of readers may be at it.
Rule 2: what is read is on disk, where there is one: a number that was seen once never stands for anything else.
Rule 3: a reader speaks of one life of the client and one of the broker. If either is over, or what it asks for has been
        confirmed or given up, it is told so, and gets nothing: a gap is never passed over in silence.
Rule 4: an answer is bounded; a reader that wants more asks on. So nobody has to wait behind it, and nothing piles up.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from pleach.core.links.frames import Bye, ByeReason, Data, Extent, Frame, Hello, Read
from pleach.core.links.session import Session
from pleach.core.messages.runs import messages_in

READER = "reader"  # the role in a reader's Hello
ANSWER_MESSAGES_MAX = 1_024
ANSWER_BYTES_MAX = 1_048_576  # beyond: one payload, however large
SURVEY_PAYLOADS_MAX = 65_536  # that are counted for one answer


def refusal(session: Session | None, hello: Hello, epoch: int) -> Bye | None:
    """Why a reader may not read; None if it may. `epoch`: of the node that has the session."""
    if session is None:
        return Bye(ByeReason.BROKEN, f"nothing is known of {hello.node}: it was away for too long, or never here")
    if hello.peer_epoch != epoch:
        return Bye(ByeReason.BROKEN, f"{session.node} has lost its memory, and with it what it had for {hello.node}")
    if hello.epoch < session.peer_epoch:
        return Bye(ByeReason.FENCED, f"a newer {hello.node} (epoch {session.peer_epoch}) is known to {session.node}")
    if hello.epoch > session.peer_epoch:
        return Bye(ByeReason.BROKEN, f"{session.node} does not know this life of {hello.node}")
    return None


def gap(session: Session, after: int) -> Bye | None:
    """What is said to a reader that asks for what is not there any more, or never was."""
    if session.first - 1 <= after <= session.last:
        return None
    held = f"{session.node} has {session.first} to {session.last}"
    return Bye(ByeReason.BROKEN, f"{session.peer} asks for what follows {after}; {held}, and gave up what is missing")


def answer(session: Session, read: Read, visible: int) -> list[Frame]:
    """What a reader gets; `visible`: the last number that may be seen (rule 2)."""
    bye = gap(session, read.after)
    if bye is not None:
        return [bye]
    visible = min(visible, session.last)
    upto = min(read.upto or visible, visible)
    found = takewhile(lambda each: each[0] <= upto, session.payloads(read.after))
    if not read.is_survey:
        frames = list(_within(found))
        end = frames[-1].sequence if frames else read.after
        return [*frames, Extent(end, session.first, visible)]
    end = _reach(found, read.messages_max, read.after) if read.messages_max else max(upto, read.after)
    return [Extent(end, session.first, visible)]


def _within(found: Iterator[tuple[int, bytes]]) -> Iterator[Data]:
    """As much as one answer may hold, and one payload in any case."""
    messages = size = 0
    for number, payload in found:
        count = messages_in(payload)
        if messages and (messages + count > ANSWER_MESSAGES_MAX or size + len(payload) > ANSWER_BYTES_MAX):
            return
        yield Data(number, payload)
        messages += count
        size += len(payload)


def _reach(found: Iterator[tuple[int, bytes]], messages_max: int, after: int) -> int:
    """How far some messages go; as far as one payload in any case."""
    messages, end = 0, after
    for count, (number, payload) in enumerate(found):
        messages += messages_in(payload)
        if count and (messages > messages_max or count == SURVEY_PAYLOADS_MAX):
            break
        end = number
    return end
