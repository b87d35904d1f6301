"""The codec of frames: what goes in comes out, however the stream is cut; what is no frame is refused, cheaply."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from struct import pack
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.links.frames import (
    FRAME_BYTES_MAX,
    NUMBER_MAX,
    PROTOCOL_VERSION,
    Ack,
    Bye,
    ByeReason,
    Data,
    Extent,
    Frame,
    FrameReader,
    Hello,
    Ping,
    Read,
    StandbyPart,
    encode_frame,
)
from pleach.errors import FrameError
from support.links.fuzz_frames import ALLOWED_FROM_DECODE, SAMPLES, fuzz
from support.thorough import FACTOR

NUMBERS = st.integers(1, 2**64 - 1)
ORDINALS, COUNTS = st.integers(1, NUMBER_MAX), st.integers(0, NUMBER_MAX)
NAMES = st.text(max_size=20)
FRAMES = st.one_of(
    st.builds(Data, NUMBERS, st.binary(max_size=60)),
    st.builds(Ack, st.integers(0, 2**64 - 1)),
    st.just(Ping()),
    st.builds(Bye, st.sampled_from(ByeReason), NAMES),
    st.builds(Read, COUNTS, COUNTS, COUNTS, st.booleans()),
    st.builds(Extent, COUNTS, ORDINALS, COUNTS),
    st.builds(StandbyPart, st.binary(max_size=60), st.booleans()),
    st.builds(Hello, NAMES, ORDINALS, COUNTS, COUNTS, ORDINALS, st.integers(0, 9), NAMES),
)


def read(*chunks: bytes) -> list[Frame]:
    reader = FrameReader()
    return [frame for chunk in chunks for frame in reader.feed(chunk)]


def announcing(length: int) -> bytes:
    """A header alone: a DATA frame of `length` bytes."""
    return pack(">IBQ", length, 2, 1)


@given(st.lists(FRAMES, max_size=8))
def test_what_is_encoded_is_read_again(frames):
    assert read(b"".join(map(encode_frame, frames))) == frames


@given(st.lists(FRAMES, max_size=5), st.data())
def test_it_does_not_matter_how_the_stream_is_cut(frames, data):
    stream = b"".join(map(encode_frame, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    chunks = [stream[i:j] for i, j in itertools.pairwise([0, *cuts, len(stream)])]
    assert read(*chunks) == frames


def test_every_way_to_cut_a_short_stream_in_three():
    frames = [Data(1, b"ab"), Ack(7), Bye(ByeReason.LEAVING, "x"), Ping()]
    stream = b"".join(map(encode_frame, frames))
    for i in range(len(stream) + 1):
        for j in range(i, len(stream) + 1):
            assert read(stream[:i], stream[i:j], stream[j:]) == frames, (i, j)


def test_byte_by_byte_a_frame_comes_with_its_last_byte():
    stream = encode_frame(Data(5, b"payload"))
    reader = FrameReader()
    seen = [list(reader.feed(stream[i : i + 1])) for i in range(len(stream))]
    assert seen == [[]] * (len(stream) - 1) + [[Data(5, b"payload")]]


def test_frames_before_a_bad_one_are_read():
    reader = FrameReader()
    stream = reader.feed(encode_frame(Ack(1)) + announcing(3))
    assert next(stream) == Ack(1)
    with pytest.raises(FrameError, match="3 bytes"):
        next(stream)


def test_a_consumer_that_stops_early_gets_each_frame_once():
    reader = FrameReader()
    stream = reader.feed(encode_frame(Ack(1)) + encode_frame(Ack(2)))
    assert next(stream) == Ack(1)
    stream.close()
    assert list(reader.feed(b"")) == [Ack(2)]


# Limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 8, FRAME_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_before_memory_is_taken(length):
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match="allowed"):
            list(FrameReader().feed(announcing(length)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_long_frame_that_never_comes_takes_no_memory_in_advance():
    tracemalloc.start()
    try:
        reader = FrameReader()
        assert not list(reader.feed(announcing(FRAME_BYTES_MAX)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_the_longest_frame_passes():
    payload = bytes(FRAME_BYTES_MAX - 9)
    assert read(encode_frame(Data(1, payload))) == [Data(1, payload)]


@given(st.integers(10, 80), st.integers(0, 100))
def test_the_limit_is_the_readers(limit, size):
    reader = FrameReader(frame_bytes_max=limit)
    stream = encode_frame(Data(1, bytes(size)))
    if size + 9 <= limit:
        assert list(reader.feed(stream)) == [Data(1, bytes(size))]
    else:
        with pytest.raises(FrameError):
            list(reader.feed(stream))


@pytest.mark.parametrize(
    ("kind", "number", "body"),
    [
        (0, 0, b""),
        (6, 0, b""),
        (255, 1, b""),
        (2, 0, b"data 0"),
        (3, 1, b"x"),
        (4, 0, b"x"),
        (1, 0, b""),
        (5, 0, b"\xc1"),
    ],
)
def test_what_is_no_frame_is_refused(kind, number, body):
    with pytest.raises(FrameError):
        read(pack(">IBQ", 9 + len(body), kind, number) + body)


def hello_of(*fields: object, more: bytes = b"") -> bytes:
    """A HELLO frame with these fields, whatever they are, and perhaps one more, given as it is encoded."""
    body = b"".join(map(msgspec.msgpack.encode, fields)) + more
    body = pack(">BH", 0xDC, len(fields) + bool(more)) + body
    return pack(">IBQ", 9 + len(body), 1, 0) + body


@pytest.mark.parametrize(
    "numbers",
    [(0, 0, 0, 1), (-1, 0, 0, 1), (1, -1, 0, 1), (1, 0, -1, 1), (1, 0, 0, 0), (1, 0, 0, -(2**63)), (1, 0, 2**63, 1)],
)
def test_a_greeting_with_impossible_numbers_is_refused(numbers):
    """One with `first` at -2**63 would make us say `received` -2**63 - 1 next, which no greeting can carry."""
    assert read(hello_of("a", 1, 0, 0, 1)) == [Hello("a", 1, 0, 0, 1)]
    with pytest.raises(FrameError, match="Hello"):
        read(hello_of("a", *numbers))


def test_a_greeting_nested_too_deeply_is_refused():
    """Fields of later versions are skipped; skipping 5,000 levels of arrays is too much to ask."""
    known = ("a", 1, 0, 0, 1, PROTOCOL_VERSION, "broker", "", "", 0, "", "", 0, (), (), "")
    assert read(hello_of(*known, more=b"\x90")) == [Hello("a", 1, 0, 0, 1)]
    with pytest.raises(FrameError, match="recursion"):
        read(hello_of(*known, more=b"\x91" * 5_000 + b"\x01"))


# Noise -----------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=100))
def test_random_bytes_raise_nothing_but_frame_errors(noise):
    with contextlib.suppress(FrameError):
        read(noise)


def test_mutated_frames_and_messages_raise_only_what_is_promised():
    tally = fuzz(4_000 * FACTOR, seed=1)
    assert not tally.escaped
    assert tally.frames_read > 1_000
    assert tally.frames_refused > 1_000
    assert tally.messages_read > 40
    assert tally.messages_refused > 1_000


def test_the_fuzzer_starts_from_every_kind_of_frame_and_sees_what_escapes():
    assert {type(frame) for frame in SAMPLES} == set(get_args(Frame))
    assert FrameError not in ALLOWED_FROM_DECODE
    tally = fuzz(200, seed=2, read_frames=lambda _: int("no number"))
    assert tally.escaped


@pytest.mark.parametrize(
    "bad",
    [
        (FRAME_BYTES_MAX + 1).to_bytes(4, "big") + bytes(9),  # a length beyond the limit
        bytes(13),  # a length that is too small
        encode_frame(Ping())[:4] + b"\x63" + bytes(8),  # a kind that there is not
    ],
    ids=["too long", "too short", "no kind"],
)
def test_after_a_bad_frame_it_keeps_refusing(bad):
    """Once out of step, bytes that look like frames are none."""
    reader = FrameReader()
    with pytest.raises(FrameError):
        list(reader.feed(encode_frame(Ping()) + bad))
    for more in (b"", encode_frame(Ping()), bytes(100_000)):
        with pytest.raises(FrameError):
            list(reader.feed(more))
    assert not reader._rest
