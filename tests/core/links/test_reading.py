"""Reading a session: bounded answers that together bring everything once, and refusals for what cannot be had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.event import Event, EventId
from pleach.core.links.frames import Bye, ByeReason, Data, Extent, Hello, Read
from pleach.core.links.reading import ANSWER_BYTES_MAX, ANSWER_MESSAGES_MAX, READER, answer, refusal
from pleach.core.links.session import Session, SessionState
from pleach.core.messages import Deliver
from pleach.core.messages.runs import encode_event, encode_run, messages_in

BROKER_EPOCH, EPOCH, TOKEN = 7, 3, "shown"


def payload(count, size=0):
    events = [encode_event(Event(EventId("p", 0, n + 1), {}, bytes(size))) for n in range(count)]
    return encode_run(Deliver, count, b"".join(events))


def session(*payloads, first=1):
    return Session("b", "c", SessionState(BROKER_EPOCH, EPOCH, 2, first, list(payloads)))


def hello(epoch=EPOCH, peer_epoch=BROKER_EPOCH):
    return Hello("c", epoch, peer_epoch, 0, 1, role=READER, token=TOKEN)


def read_all(held, after, upto, visible):
    """As a reader does: ask on until nothing comes any more."""
    seen = []
    while after < upto:
        *frames, extent = answer(held, Read(after, upto), visible)
        assert sum(messages_in(f.payload) for f in frames) <= ANSWER_MESSAGES_MAX or len(frames) == 1
        assert sum(len(f.payload) for f in frames) <= ANSWER_BYTES_MAX or len(frames) == 1
        assert extent.upto == (frames[-1].sequence if frames else after)
        if not frames:
            break
        seen += frames
        after = extent.upto
    return seen


@given(
    st.lists(st.sampled_from([1, 1, 2, 200, 256]), max_size=30),
    st.integers(1, 1_000),
    st.data(),
)
def test_asking_on_brings_each_payload_of_a_range_once(counts, first, data):
    held = session(*map(payload, counts), first=first)
    last = first + len(counts) - 1
    after = data.draw(st.integers(first - 1, last))
    upto = data.draw(st.integers(after, last))
    visible = data.draw(st.integers(first - 1, last + 3))
    before = held.capture()
    frames = read_all(held, after, upto, visible)
    assert [frame.sequence for frame in frames] == list(range(after + 1, min(upto, visible) + 1))
    assert held.capture() == before


@given(st.lists(st.sampled_from([1, 2, 50, 256]), max_size=20), st.integers(1, 400), st.integers(0, 20))
def test_a_survey_goes_as_far_as_the_limit_and_one_payload_at_least(counts, limit, visible):
    held = session(*map(payload, counts))
    (extent,) = answer(held, Read(0, messages_max=limit, is_survey=True), visible)
    seen = counts[: extent.upto]
    assert sum(seen) <= limit or len(seen) == 1
    reachable = min(visible, len(counts))
    assert extent.last == reachable
    assert extent.upto == reachable or sum(counts[: extent.upto + 1]) > limit


def test_a_survey_without_a_limit_goes_to_the_end():
    assert answer(session(payload(3), payload(1)), Read(0, is_survey=True), 99) == [Extent(2, 1, 2)]
    assert answer(session(), Read(0, is_survey=True), 0) == [Extent(0, 1, 0)]


def test_a_payload_beyond_the_size_of_an_answer_comes_alone():
    large = payload(1, ANSWER_BYTES_MAX)
    frames = answer(session(payload(1), large, payload(1)), Read(0), 3)
    assert frames == [Data(1, payload(1)), Extent(1, 1, 3)]
    assert answer(session(payload(1), large, payload(1)), Read(1), 3) == [Data(2, large), Extent(2, 1, 3)]


@pytest.mark.parametrize("after", [0, 3, 9])
def test_what_was_confirmed_or_never_given_out_is_a_gap(after):
    held = session(payload(1), payload(1), first=5)  # 5 and 6
    (bye,) = answer(held, Read(after), 6)
    assert isinstance(bye, Bye)
    assert bye.why is ByeReason.BROKEN


def test_what_was_given_up_is_a_gap_even_for_who_has_all_of_it():
    held = session(payload(1), payload(1))
    held.give_up("too much")
    (bye,) = answer(held, Read(2), 2)
    assert bye.why is ByeReason.BROKEN


@pytest.mark.parametrize(
    ("held", "said", "why"),
    [
        (None, hello(), ByeReason.BROKEN),
        (session(), hello(peer_epoch=BROKER_EPOCH - 1), ByeReason.BROKEN),
        (session(), hello(epoch=EPOCH - 1), ByeReason.FENCED),
        (session(), hello(epoch=EPOCH + 1), ByeReason.BROKEN),
    ],
)
def test_another_life_is_refused(held, said, why):
    assert refusal(held, said, BROKER_EPOCH, TOKEN).why is why


def test_this_life_is_not_refused():
    assert refusal(session(), hello(), BROKER_EPOCH, TOKEN) is None


def test_what_a_reader_confirms_goes_and_a_connection_goes_on_behind_it():
    held = session(payload(1), payload(1), payload(1))
    held.connected(now=0.0)
    held.receive(Hello("c", EPOCH, BROKER_EPOCH, 0, 1), now=0.0)
    held.confirm(2)
    held.confirm(1)  # late, and says nothing new
    assert (held.first, held.last, held.unconfirmed) == (3, 3, 1)
    assert held.queue(payload(2)) == 4
    assert [frame.sequence for frame in held.pump(now=0.0)] == [4]


def test_who_has_not_the_token_learns_nothing():
    """Neither whether there is such a client, nor whether the epoch is too low or too high."""
    told = {refusal(held, hello(epoch), BROKER_EPOCH, "other") for held in (None, session()) for epoch in (2, 3, 4)}
    (bye,) = told
    assert bye.why is ByeReason.REFUSED
    assert str(EPOCH) not in bye.reason
