"""[ring] of a broker's settings: found a ring or join one, by file, environment or flag."""

import json

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import SettingsError
from pleach.server.ring.settings import RingSettings
from pleach.server.settings import load_settings


def ring(**values):
    return load_settings(None, {}, {"name": "b", "ring": values})


def test_seeds_come_from_the_file_the_environment_and_flags(tmp_path):
    file = tmp_path / "b.toml"
    file.write_text('name = "b"\n[ring]\njoin = ["10.0.0.1:7200", "10.0.0.2:7200"]\nleave = true\n')
    wanted = RingSettings(join=("10.0.0.1:7200", "10.0.0.2:7200"), weave=False)
    assert load_settings(file, {}, {}).ring == wanted
    environment = {"PLEACH_RING_JOIN": "10.0.0.3:1,10.0.0.4:2", "PLEACH_RING_STABILISE_EVERY": "0.5"}
    settings = load_settings(file, environment, {}).ring
    assert (settings.join, settings.stabilise_every) == (("10.0.0.3:1", "10.0.0.4:2"), 0.5)
    assert settings.config.stabilise_every == 0.5
    assert load_settings(None, {"PLEACH_RING_FOUND": "true"}, {"name": "b"}).ring.found
    assert load_settings(None, {}, {"name": "b"}).ring is None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"found": False}, "there is nobody to join"),
        ({"found": True, "join": ["a:1"]}, "founds a ring, or joins one"),
        ({"join": ["a"]}, "'a' is no address"),
        ({"join": ["a:0"]}, "port 0 cannot be dialled"),
        ({"found": True, "stabilise_every": 0.0}, "ring.stabilise_every: 0 seconds; 0.05 to 3600"),
        ({"found": True, "leave_seconds": 1e9}, "ring.leave_seconds"),
        ({"found": True, "bits": 63}, "keys of 63 bits"),
        ({"found": True, "degree": 2}, "degree"),
        ({"found": True, "successors": 0}, "0 successors"),
        ({"found": True, "size": 1}, "unknown field"),
    ],
)
def test_what_a_ring_cannot_be_is_said(values, says):
    with pytest.raises(SettingsError, match=says):
        ring(**values)


@pytest.mark.parametrize("differing", [{"bits": 40}, {"degree": 5}])
def test_members_agree_on_what_keys_and_the_tree_follow_from(differing):
    assert ring(found=True, **differing).ring.terms != ring(found=True).ring.terms


@pytest.mark.parametrize("own_choice", [{"stabilise_every": 2.0}, {"successors": 5}])
def test_members_may_differ_in_what_only_they_do(own_choice):
    assert ring(found=True, **own_choice).ring.terms == ring(found=True).ring.terms


def test_a_broker_of_a_ring_names_no_neighbours():
    with pytest.raises(SettingsError, match="neighbours are named besides: c, d; the ring names them"):
        load_settings(None, {}, {"name": "b", "ring": {"found": True}, "peers": {"c": "x:1"}, "neighbours": ["d"]})


@pytest.mark.parametrize(
    ("flags", "found", "join"),
    [(["--ring"], True, []), (["--join", "10.0.0.1:7200,10.0.0.2:7200"], False, ["10.0.0.1:7200", "10.0.0.2:7200"])],
)
def test_flags_are_validated_like_the_rest(flags, found, join):
    done = CliRunner().invoke(app, ["broker", "b", *flags, "--validate"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert (shown["name"], shown["ring"]["found"], shown["ring"]["join"]) == ("b", found, join)
