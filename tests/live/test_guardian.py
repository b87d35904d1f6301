"""Who starts a stand-in, and who does not."""

import tomllib

import msgspec
import pytest

from pleach.live.config import BrokerSettings
from pleach.live.guardian import Opinion, why_not
from pleach.live.hosting import _toml, stand_in_settings
from pleach.messages import Kin, Whereabouts

AFTER = 10.0
SILENT = Opinion("b", linked=True, up=False, silent_seconds=11.0, epoch=7, guards=True, on_leave=False)


def said(name, **changes):
    return msgspec.structs.replace(SILENT, name=name, **changes)


def refusal(*others, own=SILENT, hears=True, ordered=False):
    return why_not("x", own, {each.name: each for each in others}, AFTER, hears_others=hears, is_ordered=ordered)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([said("c", up=True)], "c has heard of x lately"),
        ([said("c", silent_seconds=9.0)], "c has heard of x lately"),
        ([said("c", epoch=8)], "c knows a newer x"),
        ([said("c", linked=False)], "c says that it is no neighbour of x"),
        ([said("c", on_leave=True)], "x has said goodbye to c, and comes back"),
        ([said("a")], "a sees to it"),
    ],
)
def test_whoever_knows_better_has_the_last_word(others, reason):
    assert refusal(*others) == reason


def test_the_first_by_name_of_those_who_answer_and_guard_starts_it():
    assert refusal(said("c"), said("d")) == ""
    assert refusal(said("a", guards=False), said("c")) == ""


def test_whoever_hears_nobody_may_be_cut_off_and_starts_none():
    assert "may be cut off" in refusal(hears=False)
    assert refusal(hears=True) == ""  # a leaf, of which nobody else could know


def test_an_operator_decides_unless_somebody_hears_it():
    assert refusal(own=said("b", silent_seconds=0.1, on_leave=True), hears=False, ordered=True) == ""
    assert refusal(said("a"), ordered=True) == ""
    assert refusal(said("c", up=True), ordered=True) == "c has heard of x lately"


def test_the_settings_of_a_stand_in_are_the_hosts_but_for_its_place(tmp_path):
    own = BrokerSettings(
        "b",
        client_listen="127.0.0.1:7100",
        client_advertise="b.example:7100",
        parent="a",
        peers={"a": "127.0.0.1:1", "x": "127.0.0.1:2"},
        routing="merging",
        data_dir=str(tmp_path),
        zone='north "1"',
    )
    kin = Kin(
        Whereabouts(), {"b": Whereabouts(peer="127.0.0.1:3"), "q\t": Whereabouts()}, "b", {"b": ["127.0.0.1:4"]}, {}
    )
    made = stand_in_settings(own, "x", 99, kin, tmp_path / "x")
    file = tmp_path / "broker.toml"
    file.write_text(_toml(made))
    read = msgspec.convert(tomllib.loads(file.read_text()), BrokerSettings)
    assert read == made
    assert (read.name, read.routing, read.stand_in.epoch, read.stand_in.towards_root) == ("x", "merging", 99, "b")
    assert read.all_neighbours == ["b", "q\t"]
    assert read.client_listen != own.client_listen
    assert read.client_advertise == f"b.example:{read.client_listen.rpartition(':')[2]}"
    assert read.data_dir == str(tmp_path / "x" / "data")
