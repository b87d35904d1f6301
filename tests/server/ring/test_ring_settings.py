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
    file.write_text('name = "b"\n[ring]\njoin = ["10.0.0.1:7200", "10.0.0.2:7200"]\nweave = false\n')
    assert load_settings(file, {}, {}).ring == RingSettings(join=("10.0.0.1:7200", "10.0.0.2:7200"), weave=False)
    environment = {"PLEACH_RING_JOIN": "10.0.0.3:1,10.0.0.4:2", "PLEACH_RING_STABILISE_EVERY": "0.5"}
    settings = load_settings(file, environment, {}).ring
    assert (settings.join, settings.stabilise_every) == (("10.0.0.3:1", "10.0.0.4:2"), 0.5)
    assert settings.config.stabilise_every == 0.5
    assert load_settings(None, {"PLEACH_RING_FOUND": "true"}, {"name": "b"}).ring == RingSettings(found=True)
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
