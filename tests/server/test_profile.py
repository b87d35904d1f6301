"""The profile: what a broker of a ring has besides, and what takes it out again, by file, environment and flag."""

import json

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.errors import SettingsError
from pleach.server.profile import OPTIONAL_TABLES, PROFILE
from pleach.server.relay.settings import RelaySettings
from pleach.server.settings import load_settings
from pleach.server.stabilise_settings import LeaseSettings
from pleach.server.standby.settings import StandbySettings

FOUND = {"name": "b", "ring": {"found": True}}


def loaded(**values):
    return load_settings(None, {}, {**FOUND, **values})


def test_a_broker_of_a_ring_has_all_of_it():
    settings = loaded()
    assert settings.data_dir == "pleach-data/b"
    assert settings.stabilise == LeaseSettings(refresh=5.0, period=15.0)
    assert settings.standby == StandbySettings(copies=2)
    assert settings.improve == CouncilSettings()
    assert settings.relay == RelaySettings()
    assert (settings.ring.leave, settings.ring.weave) == (False, False)


def test_a_broker_whose_neighbours_are_named_has_none_of_it():
    settings = load_settings(None, {}, {"name": "b", "neighbours": ["a"]})
    assert settings.data_dir == ""
    assert (settings.stabilise, settings.standby, settings.improve, settings.relay) == (None, None, None, None)


@pytest.mark.parametrize("table", OPTIONAL_TABLES)
def test_a_table_is_taken_out_by_the_file_the_environment_or_a_flag(table, tmp_path):
    file = tmp_path / "b.toml"
    file.write_text(f'name = "b"\n{table} = false\n[ring]\nfound = true\n')
    by_flag = CliRunner().invoke(app, ["broker", "b", "--ring", f"--without={table}", "--validate"])
    for settings in (
        load_settings(file, {}, {}),
        load_settings(None, {f"PLEACH_{table.upper()}": "false"}, FOUND),
        loaded(**{table: False}),
    ):
        assert getattr(settings, table) is None
        assert all(getattr(settings, other) is not None for other in OPTIONAL_TABLES if other != table)
    assert by_flag.exit_code == 0, by_flag.output
    assert json.loads(by_flag.stdout)[table] is None


@pytest.mark.parametrize("table", OPTIONAL_TABLES)
def test_the_environment_takes_a_table_out_in_every_spelling_or_is_refused(table):
    variable = f"PLEACH_{table.upper()}"
    for text in ("False", "FALSE", "0"):
        assert getattr(load_settings(None, {variable: text}, FOUND), table) is None
    for text in ("no", "true", ""):
        with pytest.raises(SettingsError, match=f"{variable} is '{text}'; write false, or its keys: {variable}_"):
            load_settings(None, {variable: text}, FOUND)


def test_what_a_file_says_wins_over_the_profile_key_by_key(tmp_path):
    file = tmp_path / "b.toml"
    file.write_text(
        'name = "b"\ndata_dir = "/d"\nring = { join = ["a:1"] }\nstabilise.period = 20\nstandby.copies = 3\n'
    )
    settings = load_settings(file, {"PLEACH_STABILISE_REFRESH": "7"}, {})
    assert (settings.stabilise.refresh, settings.stabilise.period) == (7.0, 20.0)
    assert (settings.standby.copies, settings.data_dir) == (3, "/d")
    later = load_settings(file, {}, {"standby": False})
    assert later.standby is None


def test_one_of_two_moves_links():
    assert loaded(improve=False).ring.weave
    assert not loaded(improve={"every": 3.0}).ring.weave
    with pytest.raises(SettingsError, match=r"links follow the ring, or what they cost .*--without improve"):
        loaded(ring={"found": True, "weave": True})


def test_a_broker_in_memory_leaves_when_it_is_stopped_and_one_with_a_disk_comes_back():
    assert loaded(data_dir="", standby=False).ring.leave
    assert not loaded(data_dir="/d").ring.leave
    assert loaded(ring={"found": True, "leave": True}).ring.leave


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--without=data-dir"], r"a broker in memory only has nothing to copy; .*--without standby"),
        (["--hierarchical"], r"hierarchical routing goes by the root, .*--without improve"),
        (["--without=standby", "--copies", "3"], "--without standby is given, and flags that set it"),
        (["--without=data-dir", "--data-dir", "d"], "--without data-dir is given, and flags that set it"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_flag_that_mends_it(flags, says):
    done = CliRunner().invoke(app, ["broker", "b", "--ring", *flags, "--validate"])
    assert isinstance(done.exception, SettingsError)
    with pytest.raises(SettingsError, match=says):
        raise done.exception


@pytest.mark.parametrize("name", [".", "..", "eu.riga", "a b"])
def test_the_data_directory_of_a_name_is_a_folder_of_its_own(name):
    folder = loaded(name=name).data_dir.removeprefix(f"{PROFILE.data_dir}/")
    assert folder
    assert "/" not in folder
    assert "." not in folder
