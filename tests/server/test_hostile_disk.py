"""What clients make a broker write down does not fill its disk."""

import socket

import pytest

from pleach.core.effects import Observed
from pleach.server.storage.committer import JOURNAL_BYTES_MAX, JournalBounds
from pleach.server.storage.database import BYTES_MIN
from support.live.broker_process import RawClient, address, clients, eventually, processes
from support.live.hostile_acts import subscribed_and_withdrawn
from support.live.hostile_wire import greeting

MEGABYTE = 1_048_576


class Fixed:
    """The one name that the attacker has."""

    def randrange(self, _):
        return 0


def attack(broker, frames):
    """Send all at once, and wait until the broker has dealt with it."""
    with socket.create_connection(address(broker.ready["client"]), timeout=60) as connection:
        connection.sendall(greeting(Fixed(), "hostile"))
        try:
            for frame in frames:
                connection.sendall(frame)
            while connection.recv(65_536):
                pass
        except ConnectionError:
            pass  # filters of this size may be refused: nothing is written then


@pytest.mark.parametrize(
    ("quota", "size", "count"),
    [(16 * MEGABYTE, 900_000, 40), (BYTES_MIN, 3_000, 600), (BYTES_MIN, 20, 5_000)],
    ids=["large", "small", "tiny"],
)
def test_subscriptions_that_come_and_go_leave_room_for_honest_publishers(tmp_path, quota, size, count):
    """17 pairs of 0.9 MB filled a quota of 16 MB: everybody's publishes were refused until a restart."""
    settings = tmp_path / "b.toml"
    settings.write_text(f"[limits]\ndata_bytes = {quota}\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, durable=True)
        with clients(RawClient("s", broker), RawClient("p", broker)) as (s, p):
            s.subscribe("all", "n >= 0")
            attack(broker, subscribed_and_withdrawn(size, count))
            for n in range(10):
                p.publish(n=n)
            eventually(lambda: len(s.delivered()) == 10, pumping=[s, p])
            assert len(p.seen(Observed.PUBLISH_ACK)) == 10
            assert [event.attributes["n"] for event in s.delivered()] == list(range(10))
        assert broker.status()["publishes_refused"] == ""
        assert (tmp_path / "b" / "pleach.db").stat().st_size <= quota
        assert "publishes are refused" not in broker.log()


def test_a_journal_gets_as_much_as_the_state_takes_but_not_where_space_is_short():
    assert JournalBounds.of(0, 0, 0).bytes == JOURNAL_BYTES_MAX
    assert JournalBounds.of(50 * MEGABYTE, 0, 0).bytes == 50 * MEGABYTE
    assert JournalBounds.of(50 * MEGABYTE, 80 * MEGABYTE, 30 * MEGABYTE).bytes == 10 * MEGABYTE
    assert JournalBounds.of(50 * MEGABYTE, 80 * MEGABYTE, 15 * MEGABYTE).bytes == 2.5 * MEGABYTE
