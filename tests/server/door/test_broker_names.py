"""Who is sent away when a message names a broker's next neighbour: a client of that name, and never the neighbour."""

from types import SimpleNamespace

import pytest

from pleach.core.messages import Lock
from pleach.server.door.broker_names import BrokerNames

LOCK = Lock("1", "e", "b", "c")  # c is asked to link to e


def names_of(session, *, is_client, links):
    """The feature at c, where `session` is that of e; and the names that were given up."""
    given_up = []
    sessions = {} if session is None else {"e": session}
    parts = SimpleNamespace(
        broker=SimpleNamespace(name="c", hosting=SimpleNamespace(here=()), sessions=()),
        endpoint=SimpleNamespace(sessions=sessions, give_name=lambda name, *_, **__: given_up.append(name)),
        gate=SimpleNamespace(forget=lambda _: None),
        links=links,
        directory=SimpleNamespace(is_broker=lambda _: False, is_client=lambda _: is_client),
        counters=SimpleNamespace(clients=SimpleNamespace(evicted=0)),
        clock=lambda: 0.0,
    )
    return BrokerNames(parts), given_up


@pytest.mark.parametrize(
    ("session", "is_client", "links", "sent_away"),
    [
        (None, False, (), []),
        (SimpleNamespace(last=0, received=0), True, ("e",), ["e"]),
        (SimpleNamespace(last=3, received=0), False, (), ["e"]),
        (SimpleNamespace(last=0, received=2), False, (), ["e"]),
        (SimpleNamespace(last=0, received=0), False, (), []),
        (SimpleNamespace(last=7, received=0), False, ("e",), []),
    ],
    ids=[
        "nobody of that name",
        "a client that is connected",
        "one that is away, for whom something waits",
        "one that is away, and has said something",
        "the broker itself, which is welcome, and has been here",
        "the broker itself, which has come sooner than the message, after a session that was forgotten",
    ],
)
def test_a_client_gives_its_name_up_and_the_broker_does_not(session, is_client, links, sent_away):
    names, given_up = names_of(session, is_client=is_client, links=links)
    names.message_received("b", LOCK)
    assert given_up == sent_away
