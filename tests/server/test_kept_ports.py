"""Ports that a broker has again after a restart, where any port would do."""

import json
import socket

import pytest

from pleach.net.addresses import parse_address
from pleach.server.kept_ports import FILE, chosen_ports, keep_ports, with_ports
from pleach.server.settings import BrokerSettings
from support.live.broker_process import eventually, processes
from support.live.ring_tree import RING_ONLY
from support.ports import free_port

ANY = "127.0.0.1:0"
HERE = [f"--{door}-listen=127.77.0.1:0" for door in ("client", "peer", "admin")]  # nobody else takes ports there


def settings(place, **values):
    return BrokerSettings("a", data_dir=str(place), **values)


def test_the_first_time_any_port_will_do(tmp_path):
    assert chosen_ports(settings(tmp_path)) == dict.fromkeys(("client_listen", "peer_listen", "admin_listen"), ANY)


def test_what_was_there_is_taken_again_as_far_as_it_is_free(tmp_path):
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        keep_ports(settings(tmp_path), {"peer_listen": f"127.0.0.1:{free}", "client_listen": f"127.0.0.1:{taken}"})
        chosen = chosen_ports(settings(tmp_path))
    assert chosen["peer_listen"] == f"127.0.0.1:{free}"
    assert parse_address(chosen["client_listen"], key="").port not in (0, taken)
    assert chosen["admin_listen"] == ANY


def test_a_port_in_the_settings_wins(tmp_path):
    keep_ports(settings(tmp_path), {"peer_listen": f"127.0.0.1:{free_port()}"})
    own = settings(tmp_path, peer_listen="127.0.0.1:7201")
    assert chosen_ports(own)["peer_listen"] == "127.0.0.1:7201"
    assert (
        with_ports(own, {"peer_listen": "127.0.0.1:9", "client_listen": "127.0.0.1:8"}).peer_listen == "127.0.0.1:7201"
    )
    assert (
        with_ports(own, {"peer_listen": "127.0.0.1:9", "client_listen": "127.0.0.1:8"}).client_listen == "127.0.0.1:8"
    )


def test_in_memory_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep_ports(BrokerSettings("a"), {"peer_listen": f"127.0.0.1:{free_port()}"})
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b'{"peer_listen": 0}', b'{"peer_listen": 70000}', b"\xff" * 5_000]
)
def test_a_file_that_cannot_be_read_counts_as_not_there(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    assert chosen_ports(settings(tmp_path))["peer_listen"] == ANY


def test_a_disk_that_is_full_does_not_keep_a_broker_from_starting(tmp_path, caplog):
    """It has room again once its neighbours have taken what waits for them."""
    (tmp_path / f"{FILE}.new").mkdir()
    keep_ports(settings(tmp_path), {"peer_listen": f"127.0.0.1:{free_port()}"})
    assert "may be others after the next start" in caplog.text


def test_brokers_that_were_stopped_together_find_each_other_again(tmp_path):
    with processes() as start:
        a = start("a", tmp_path, *HERE, "--ring", *RING_ONLY, durable=True, any_port=True)
        b = start("b", tmp_path, *HERE, f"--join={a.ready['peer']}", *RING_ONLY, durable=True, any_port=True)
        before = {broker.name: broker.ready for broker in (a, b)}
        assert [broker.stop() for broker in (a, b)] == [0, 0]
        for broker in (a, b):
            broker.start()
        assert {broker.name: broker.ready for broker in (a, b)} == before
        eventually(lambda: a.is_ready() and b.is_ready())
        assert json.loads((tmp_path / "a" / FILE).read_text())["peer_listen"] == int(a.ready["peer"].rpartition(":")[2])
