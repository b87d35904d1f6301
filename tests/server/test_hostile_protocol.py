"""What a client or a peer may say that was not asked for: it is refused, and nobody else notices (real brokers)."""

import time

import pytest

from pleach.core.effects import Observed
from pleach.core.events.event import EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Ack, Bye, ByeReason
from pleach.core.messages import Attach, Returning, Subscribed
from support.live.broker_process import RawClient, clients, eventually, processes
from support.live.stranger import Stranger

LAST = 2**63 - 1
SETTINGS_KINDS = {
    "plain": "",
    "heal": "[heal]\nafter = 5.0\n",
    "causal": 'ordering = "causal"\n[heal]\nafter = 5.0\n',
    "leases": '[stabilise]\nkind = "leases"\nrefresh = 0.5\nperiod = 5.0\n',
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One for all that must not harm it; each test has clients of its own names."""
    with processes() as start:
        yield start("b", tmp_path_factory.mktemp("b"))


def settings(place, text):
    file = place / "b.toml"
    file.write_text(text)
    return ["--config", file]


# Row 1: `Returning` -------------------------------------------------------------------------------------------------


def returning(*marks, subscriptions=()):
    return Returning(True, list(marks), dict(subscriptions), {})


@pytest.mark.parametrize("kind", SETTINGS_KINDS)
def test_a_client_that_says_it_returns_takes_nobodys_events(tmp_path, kind):
    with processes() as start:
        broker = start("b", tmp_path, *settings(tmp_path, SETTINGS_KINDS[kind]))
        with clients(RawClient("alice", broker), RawClient("reader", broker)) as (alice, reader):
            reader.subscribe("all", "n >= 0")
            for name in ("mallory", "mallet"):
                with Stranger(broker.ready["client"], name) as liar:
                    liar.tell(returning(EventId("alice", LAST, LAST)))
                    liar.hear_out()
            for n in range(3):
                alice.publish(n=n)
            eventually(lambda: len(alice.seen(Observed.PUBLISH_ACK)) == 3, pumping=[alice, reader])
            eventually(lambda: len(reader.delivered()) == 3, pumping=[alice, reader])
        assert not broker.status()["operation"]


def test_a_client_that_says_it_returns_subscribes_to_nothing(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, *settings(tmp_path, "[limits]\nsubscriptions = 10\n"))
        wanted = {f"s{n}": parse_filter(f"n = {n}") for n in range(9_000)}
        with Stranger(broker.ready["client"], "mallory") as liar:
            liar.tell(returning(subscriptions=wanted))
            liar.hear_out()
            assert not [each for each in liar.messages if isinstance(each, Subscribed)]
        with clients(RawClient("alice", broker)) as (alice,):
            alice.subscribe("all", "n >= 0")
