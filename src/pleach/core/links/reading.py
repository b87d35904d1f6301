"""Reading a session from a connection of its own, for a client that has no permanent process.

    reader                                   broker
      Hello (role "reader", the client's name and epoch, the broker's epoch, a token)  ──▶  ◀── Hello
      Read after 40, survey      ──▶   ◀── Extent 57            the last number there is
      Read after 40, up to 57    ──▶   ◀── Data 41 … Data 52, Extent 52       bounded per answer
      Ack 57                     ──▶   ◀── Extent 57            the broker drops them

Rule 1: reading changes nothing. Payloads keep their numbers and stay until they are confirmed; a reader that fails
        halfway asks again and gets the same. There may be several readers.
Rule 2: only committed payloads are readable: a number that was read once never stands for another payload.
Rule 3: a reader names one epoch of the client and one of the broker. If either is outdated, or if the payloads have
        been confirmed or given up, it is refused: a gap is never skipped silently.
        It shows a token that the broker gave to the client alone, in its Hello.
Rule 4: an answer is bounded; a reader that wants more asks again. Nobody waits behind it, and nothing accumulates.
"""

from __future__ import annotations

from collections.abc import Iterator
from hmac import compare_digest
from itertools import takewhile

from pleach.core.links.frames import Bye, ByeReason, Data, Extent, Frame, Hello, Read
from pleach.core.links.session import Session
from pleach.core.messages.runs import messages_in

READER = "reader"  # the role in a reader's Hello
ANSWER_MESSAGES_MAX = 1_024
ANSWER_BYTES_MAX = 1_048_576  # one payload is sent whatever its size
SURVEY_PAYLOADS_MAX = 65_536  # counted for one answer


def refusal(session: Session | None, hello: Hello, epoch: int, token: str) -> Bye | None:
    """The refusal of a reader; None if it may read. `epoch`: of the node that has the session.

    `token`: what it must show for the client and the epoch that its Hello names. Who has none learns nothing.
    """
    if hello.peer_epoch != epoch:
        return Bye(ByeReason.BROKEN, f"the broker has lost its memory, and with it what it had for {hello.node}")
    if not compare_digest(hello.token.encode(), token.encode()):
        return Bye(ByeReason.REFUSED, f"who reads for {hello.node} must show the token that {hello.node} was given")
    if session is None:
        return Bye(ByeReason.BROKEN, f"nothing is known of {hello.node}: it was away for too long, or never here")
    if hello.epoch < session.peer_epoch:
        return Bye(ByeReason.FENCED, f"a newer {hello.node} is known to {session.node}")
    if hello.epoch > session.peer_epoch:
        return Bye(ByeReason.BROKEN, f"{session.node} does not know this epoch of {hello.node}")
    return None


def gap(session: Session, after: int) -> Bye | None:
    """The refusal of a read whose payloads are gone or never existed; None if they are there."""
    if session.first - 1 <= after <= session.last:
        return None
    held = f"{session.node} has {session.first} to {session.last}"
    return Bye(ByeReason.BROKEN, f"{session.peer} asks for what follows {after}; {held}, and gave up what is missing")


def answer(session: Session, read: Read, visible: int) -> list[Frame]:
    """The answer to a reader; `visible`: the last number that is committed (rule 2)."""
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
    """The payloads of one answer: bounded, but at least one."""
    messages = size = 0
    for number, payload in found:
        count = messages_in(payload)
        if messages and (messages + count > ANSWER_MESSAGES_MAX or size + len(payload) > ANSWER_BYTES_MAX):
            return
        yield Data(number, payload)
        messages += count
        size += len(payload)


def _reach(found: Iterator[tuple[int, bytes]], messages_max: int, after: int) -> int:
    """The number of the last payload within `messages_max`; at least one payload."""
    messages, end = 0, after
    for count, (number, payload) in enumerate(found):
        messages += messages_in(payload)
        if count and (messages > messages_max or count == SURVEY_PAYLOADS_MAX):
            break
        end = number
    return end
