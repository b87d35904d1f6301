"""Runs that a hostile peer has changed are read, or refused with an error that the endpoint expects."""

from random import Random

import msgspec
import pytest

from pleach.core.broker import Broker
from pleach.core.events.event import Event, EventId
from pleach.core.messages import Attach, Forward, Publish
from pleach.core.messages.runs import Run, encode_event, encode_run, is_run
from pleach.core.routing.router import RoutingConfig
from pleach.errors import PleachError
from support.thorough import FACTOR

COUNT = 10_000 * FACTOR
TELLING = (0x80, 0x90, 0xC0, 0xC1, 0xDC, 0xDD, 0xA0, 0xCB, 0xFF)  # bytes that mean something in MessagePack
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, PleachError)


def run_of(kind):
    events = [Event(EventId("c", 0, i + 1), {"n": i, "s": "ä", "b": b"x", "f": 1.5}, b"payload") for i in range(4)]
    return encode_run(kind, len(events), b"".join(map(encode_event, events)))


def mutated(stream, payload):
    changed = bytearray(payload)
    for _ in range(stream.choice((1, 1, 2, 5))):
        at = stream.randrange(2, len(changed))
        match stream.randrange(4):
            case 0:
                changed[at] = stream.randrange(256)
            case 1:
                changed[at] = stream.choice(TELLING)
            case 2:
                changed[at:at] = bytes([stream.randrange(256)])
            case _ if at > 8:
                del changed[at:]
    return bytes(changed)


@pytest.mark.parametrize(("kind", "sender"), [(Publish, "c"), (Forward, "n")])
def test_nothing_escapes_from_a_run_that_was_tampered_with(kind, sender):
    broker = Broker("b", RoutingConfig(), neighbours=["n"])
    broker.handle("c", Attach(), now=0.0)
    stream = Random(f"runs/{kind.__name__}")
    taken = refused = 0
    for _ in range(COUNT):
        payload = mutated(stream, run_of(kind))
        assert is_run(payload)
        try:
            run = Run(payload)
            passed = broker.handle_run(sender, run)
            taken += sum(span.end - span.start for span in passed.spans) if passed else len(run.messages())
        except REFUSALS:
            refused += 1
    assert taken > 0
    assert COUNT / 10 < refused < COUNT
