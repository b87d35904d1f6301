"""Operations that meet: opposed, side by side, sharing brokers, with brokers that stall. All end, and a tree is left.

Bound: requests that meet a lock are tried again, after waits that grow, at most 8 times, which takes up to 38.4 s.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from itertools import combinations
from random import Random

import msgspec
import pytest

from pleach.core.messages import Abort, Aborted, Close, LockAck, LockNack, Open
from pleach.core.messages import Swap as SwapMessage
from pleach.errors import ProtocolError
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import RemoveBroker, Swap
from pleach.scenario.values import Choice, Span
from pleach.trace import RecordKind
from support.overlay.changing_trees import Sketch
from support.overlay.faults_at_messages import CrashAt, Journey, When, links_of
from support.overlay.judgement import Watched, violations
from support.overlay.small_networks import BEGINS_AT, SWAP, links_after, station
from support.thorough import FACTOR

CONCLUDED_WITHIN = 45.0  # seconds of virtual time
LEASE = 10.0
OFFSETS = [0.001 * i for i in range(0, 50, 4)]  # a swap of `station` takes 45 ms


def concluded(scenario, seed=1):
    """Run it; everything must hold, and all operations must have ended in time. Returns the run."""
    watched = Watched(scenario, seed)
    verdict = watched.finish()
    assert not [*watched.flaws, *violations(verdict)], f"{scenario.name}: {scenario.steps}"
    check_ends(watched)
    return watched


def check_ends(watched):
    """Each operation has two notes in the trace: what was asked for, and how it ended."""
    moments: dict[str, list[float]] = {}
    for record in watched.run.recorder.records:
        if record.kind == RecordKind.STATE and record.detail.startswith("operation "):
            moments.setdefault(record.detail.split(":")[0], []).append(record.at)
    assert moments
    for operation, times in moments.items():
        assert len(times) == 2, f"{operation} was concluded {len(times) - 1} times"
        assert times[1] - times[0] < CONCLUDED_WITHIN, operation


def swap(*brokers, after=0.0):
    return Swap(at=BEGINS_AT + after, brokers=brokers)


# Two at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", OFFSETS)
def test_of_two_opposed_swaps_one_is_done(offset):
    """a–b–c to a–c–b against c–b–a to c–a–b: after the one, the other asks for a link that is there."""
    watched = concluded(station(SWAP, swap("c", "b", "a", after=offset)))
    assert len(watched.refused) == 1
    assert "linked already" in watched.refused[0]
    assert len(links_of(watched.run.brokers) ^ links_after()) == 2


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("x", "a", "b"), ("z", "c", "b")),  # share b, which is c in both
        (("x", "a", "b"), ("b", "c", "z")),  # … c in the one, a in the other
        (("b", "a", "x"), ("z", "c", "b")),
        (("b", "a", "x"), ("b", "c", "z")),
    ],
    ids=str,
)
def test_two_swaps_that_share_one_broker_are_both_done(one, other, offset):
    watched = concluded(station(swap(*one), swap(*other, after=offset)))
    assert not watched.refused


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    "brokers",
    [("z", "c", "b"), ("b", "c", "z"), ("c", "b", "a"), ("a", "b", "c"), ("x", "a", "b")],
    ids=["it is a", "it is c", "its neighbour is a", "its neighbour is c", "elsewhere"],
)
def test_a_swap_while_a_broker_leaves(brokers, offset):
    """Whichever is first, and whichever place the leaving broker or its neighbour has in the swap."""
    for first, second in ((0.0, offset), (offset, 0.0)):
        leaves = RemoveBroker(at=BEGINS_AT + first, broker="z")
        concluded(station(leaves, swap(*brokers, after=second)))


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_swap_around_the_neighbour_of_a_broker_that_leaves(offset):
    """The neighbour is b of the swap: it has three neighbours."""
    base = station()
    links = (*base.links, ("c", "n"))
    for first, second in ((0.0, offset), (offset, 0.0)):
        steps = (RemoveBroker(at=BEGINS_AT + first, broker="z"), swap("b", "c", "n", after=second))
        scenario = msgspec.structs.replace(base, links=links, brokers=(*base.brokers, "n"), steps=steps)
        assert not concluded(scenario).refused


@pytest.mark.parametrize("offset", OFFSETS[::4])
def test_neighbours_that_leave_one_after_the_other(offset):
    """z's clients go to c, and c is a leaf once z has gone; before that it is refused."""
    concluded(station(RemoveBroker(at=BEGINS_AT, broker="z"), RemoveBroker(at=BEGINS_AT + offset, broker="c")))


# Ten at once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3 * FACTOR))
def test_ten_random_operations_at_once_on_thirty_brokers(seed):
    scenario = crowd(seed)
    watched = concluded(scenario, seed)
    assert len(watched.refused) < len(scenario.steps)


def crowd(seed):
    stream = Random(f"crowd/{seed}")
    brokers = [f"b{i}" for i in range(30)]
    links = [(stream.choice(brokers[:i]), brokers[i]) for i in range(1, len(brokers))]
    sketch = Sketch(list(brokers), list(links), list(brokers))
    draws = [sketch.swap] * 6 + [sketch.add] * 2 + [sketch.remove] * 2
    operations = [draw(stream, BEGINS_AT + stream.choice((0.0, 0.0, 0.01))) for draw in draws]
    pairs = combinations(sketch.named, 2)
    return Scenario(
        name=f"crowd {seed}",
        routing=Routing.COVERING,
        ordering=Ordering.CAUSAL,
        root="b0",
        links=tuple(links),
        brokers=tuple(brokers),
        duration=0.5,
        latency=PerLink(Span(0.0005, 0.0005), tuple((a, b, _latency(stream)) for a, b in pairs)),
        clients=tuple(_client(stream, i, brokers) for i in range(12)),
        steps=tuple(sorted((step for step in operations if step), key=lambda step: step.at)),
    )


def _latency(stream):
    seconds = 0.001 * 25 ** stream.random()
    return Span(seconds, seconds)


def _client(stream, index, brokers):
    lanes = Choice(tuple(f"lane{i}" for i in range(12)))
    return ScenarioClient(
        id=f"c{index}",
        broker=stream.choice(brokers),
        publish=(PublishLoad(every=Span(0.02, 0.06), attributes={"lane": lanes}),) if index < 4 else (),
        reply=(Reply(to="EXISTS lane", attributes={"answer": index}, probability=0.2),),
        subscribe=(f"lane = 'lane{index}'", "EXISTS answer", *(("EXISTS lane",) if index % 3 == 0 else ())),
    )


# Brokers that stall ---------------------------------------------------------------------------------------------

STALL = 60.0
STALLS = {  # while the middle broker is alive and has not passed on `Swap`
    "c, before it locks": (1, When.BEFORE),
    "a, before it knows that all are locked": (3, When.BEFORE),
}


@pytest.mark.parametrize("stall", STALLS)
def test_who_stalls_past_its_lease_does_not_keep_the_others(stall):
    """Others that were locked for the swap take part in another operation long before the stalled one returns."""
    other = swap("x", "a", "b", after=LEASE + 2) if stall.startswith("c") else swap("z", "c", "b", after=LEASE + 2)
    journey = Journey(station(SWAP, other), (CrashAt(*STALLS[stall], STALL),))
    assert not journey.finish()
    ended = [r for r in journey.run.recorder.records if r.detail == "operation 2: done"]
    assert ended, journey.watched.refused
    assert ended[0].at < LEASE + 5


def test_once_the_tables_are_passed_on_the_others_wait():
    """Nobody can tell then whether c has adopted them: a and b keep their locks, and the swap is done in the end."""
    journey = Journey(station(SWAP, swap("x", "a", "b", after=LEASE + 2)), (CrashAt(5, When.BEFORE, STALL),))
    assert not journey.finish()
    assert [reason for reason in journey.watched.refused if "a is locked for operation 1" in reason]
    assert len(journey.watched.refused) == 1
    assert journey.links == links_after(SWAP)


MAY_BE_LATE = (LockAck, partial(LockNack, reason="busy"), Abort, Aborted, SwapMessage, Close)
NEVER_LATE = (Open,)  # a sends it once, before it closes a path that c waits for


@pytest.mark.parametrize("kind", [*MAY_BE_LATE, *NEVER_LATE])
@pytest.mark.parametrize("receiver", "abc")
def test_what_is_left_of_an_old_operation_has_no_effect(receiver, kind):
    """Fenced: after the swap, whatever of it still arrives from the others of the three changes nothing."""
    journey = Journey(station(SWAP))
    assert not journey.finish()
    broker = journey.run.brokers[receiver]
    message = kind(operation=journey.points[0].operation)
    for sender in sorted(set("abc") - {receiver}):
        before = broker.capture()
        with suppress(ProtocolError) if kind in NEVER_LATE else nullcontext():
            assert not broker.handle(sender, message, now=journey.run.sim.now)
        assert broker.capture() == before
