"""Where a stand-in runs: with which settings."""

import tomllib

import msgspec

from pleach.core.messages import NeighbourAddress, NeighbourReport
from pleach.server.healing.stand_in_host import _toml, stand_in_settings
from pleach.server.settings import BrokerSettings


def test_the_settings_of_a_stand_in_are_the_hosts_but_for_its_place(tmp_path):
    own = BrokerSettings(
        "b",
        client_listen="127.0.0.1:7100",
        client_advertise="b.example:7100",
        parent="a",
        neighbours=("z",),
        peers={"a": "127.0.0.1:1", "x": "127.0.0.1:2"},
        routing="merging",
        data_dir=str(tmp_path),
        zone='north "1"',
    )
    kin = NeighbourReport(
        NeighbourAddress(),
        {"b": NeighbourAddress(peer="127.0.0.1:3"), 'q"\\': NeighbourAddress(peer="127.0.0.1:5")},
        "b",
        {"b": ["127.0.0.1:4"]},
        {},
    )
    made = stand_in_settings(own, "x", 99, kin, tmp_path / "x")
    file = tmp_path / "broker.toml"
    file.write_text(_toml(made))
    read = msgspec.convert(tomllib.loads(file.read_text()), BrokerSettings)
    assert read == made
    assert (read.name, read.routing, read.stand_in.epoch, read.stand_in.towards_root) == ("x", "merging", 99, "b")
    assert (read.peers, read.neighbours) == ({"b": "127.0.0.1:3", 'q"\\': "127.0.0.1:5"}, ())
    assert read.client_listen != own.client_listen
    assert read.client_advertise == f"b.example:{read.client_listen.rpartition(':')[2]}"
    assert read.data_dir == str(tmp_path / "x" / "data")
