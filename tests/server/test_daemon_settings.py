"""Settings: file < environment < flags, validated once, with errors that say where and what would be right."""

import json
import subprocess

import pytest

from pleach.core.routing.router import RoutingConfig
from pleach.errors import SettingsError
from pleach.server.settings import BrokerLimits, LogLevel, load_settings
from pleach.server.stabilise_settings import LeaseSettings, mends_within
from support.live.broker_process import ENVIRONMENT, PLEACH, chain, processes


def run(*arguments, environment=()):
    command = [*PLEACH, *map(str, arguments)]
    settings = {**ENVIRONMENT, **dict(environment)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=settings)


def file_with(place, text):
    path = place / "b.toml"
    path.write_text(text)
    return path


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path):
    file = file_with(
        tmp_path, 'name = "f"\nheartbeat = 2.0\nrouting = "simple"\n[limits]\nclients = 5\nstrangers = 6\n'
    )
    environment = {
        "PLEACH_HEARTBEAT": "3",
        "PLEACH_LIMIT_CLIENTS": "7",
        "PLEACH_JSON_LOGS": "true",
        "PLEACH_THOROUGH": "9",
    }
    settings = load_settings(file, environment, {"heartbeat": 4.0})
    assert (settings.name, settings.heartbeat, settings.routing) == ("f", 4.0, "simple")
    assert settings.limits == BrokerLimits(clients=7, strangers=6)
    assert settings.json_logs
    assert settings.log_level is LogLevel.INFO


def test_periods_of_leases_fit_the_delays(tmp_path):
    file = file_with(tmp_path, 'name = "b"\n[stabilise]\nperiod = 3.1\n')
    settings = load_settings(file, {"PLEACH_STABILISE_REFRESH": "1"}, {})
    assert settings.stabilise == LeaseSettings(refresh=1.0, period=3.1)
    with pytest.raises(SettingsError, match=r"more than 3\.25 s is wanted"):
        load_settings(file, {"PLEACH_STABILISE_REFRESH": "3"}, {})
    slow = {"refresh": 1.0, "delay": [0.5, 2.7]}
    with pytest.raises(SettingsError, match=r"more than 3.2 s is wanted \(refresh 1 \+ \(2.7 - 0.5\)\)"):
        load_settings(file, {}, {"stabilise": slow})


@pytest.mark.parametrize(
    ("given", "within"), [({}, None), ({"diameter": 4}, 13.0), ({"delay": (0, 1), "diameter": 3}, 15)]
)
def test_a_broker_knows_how_long_it_takes_to_mend_if_it_knows_the_network(given, within):
    settings = LeaseSettings(refresh=1.0, period=6.0, **given)
    assert mends_within(settings, RoutingConfig()) == within
    doubled = within and 2 * within
    assert mends_within(settings, RoutingConfig(advertisements=True)) == doubled


def test_lists_in_the_environment(tmp_path):
    environment = {"PLEACH_NAME": "b", "PLEACH_PEERS": "c=127.0.0.1:7,d=[::1]:8", "PLEACH_NEIGHBOURS": "a"}
    settings = load_settings(None, environment, {})
    assert settings.peers == {"c": "127.0.0.1:7", "d": "[::1]:8"}
    assert settings.all_neighbours == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("", "name", "missing"),
        ('name = ""', "name", "no name"),
        ('name = "b"\nnmae = 1', "nmae", "known keys"),
        ('name = "b"\nlimits = { client = 1 }', "limits", "known keys: clients"),
        ('name = "b"\nheartbeat = "often"', "heartbeat", "float"),
        ('name = "b"\nheartbeat = 0.0', "heartbeat", "0.01 to"),
        ('name = "b"\nclient_listen = "7100"', "client_listen", "HOST:PORT"),
        ('name = "b"\nclient_listen = "h:70000"', "client_listen", "HOST:PORT"),
        ('name = "b"\npeers = { c = "h:0" }', "peers.c", "port 0"),
        ('name = "b"\nneighbours = ["b"]', "neighbours", "itself"),
        ('name = "b"\nparent = "z"', "parent", "no neighbour"),
        ('name = "b"\nrouting = "magic"', "routing", "covering"),
        ('name = "b"\nmerge_bound = 1.5', "merge_bound", "less than 1.0"),
        ('name = "b"\nlimits = { clients = 0 }', "limits.clients", "1 or more"),
        ('name = "b"\nlimits = { outbox_bytes_low = 9_000_000_000 }', "limits.outbox_bytes_low", "at most high"),
        ('name = "b"\nstabilise = { refresh = 1.0 }', "stabilise", "missing required field `period`"),
        ('name = "b"\nstabilise = { refresh = 1, period = 1.2 }', "stabilise.period", "more than 1.25 s is wanted"),
        ('name = "b"\nstabilise = { refresh = 0, period = 9 }', "stabilise.refresh", "0.01 to"),
        ('name = "b"\nstabilise = { refresh = 1, period = 9, delay = [2, 1] }', "stabilise.delay", "no delay"),
        ('name = "b"\nstabilise = { refresh = 1, period = 9, diameter = -1 }', "stabilise.diameter", "links"),
        ('name = "b"\nstabilise = { fresh = 1 }', "stabilise", "known keys: refresh, period"),
        ('name = "b"\nimprove = { every = 0 }', "improve.every", "0.2 to"),
        ('name = "b"\nimprove = { radius = 9 }', "improve.radius", "2 to 4"),
        ('name = "b"\nhierarchical = true\nimprove = {}', "improve", "the root"),
        ('name = "b"\nring = { found = true, weave = true }', "ring.weave", "links follow the ring, or what they cost"),
        ('name = "b"\nzone = "a\\tb"', "zone", "printable"),
        ('name = "b"\nlog_level = "loud"', "log_level", "Invalid enum value"),
        ('name = "b"\ntls = {}', "tls.certificate", "pleach certs broker"),
        ('name = "b"\npeer_listen = "0.0.0.0:7200"', "peer_listen", "[tls] and [access] missing"),
        ('name = "b"\nadmin_listen = "[::]:7300"\ntls = { directory = "d" }', "admin_listen", "insecure = true"),
        ('name = "b"\nclient_listen = "broker.example:7100"', "client_listen", "open to other machines"),
        ("name = ", "", "no TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, key, says):
    file = file_with(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file, {}, {})
    assert caught.value.key == key
    assert says in str(caught.value)
    if key != "name" or text:
        assert str(file) in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:7100", "127.9.9.9:7100", "[::1]:7100", "localhost:7100"])
def test_on_the_loopback_nothing_is_required(address):
    assert load_settings(None, {}, {"name": "b", "client_listen": address}).tls is None


def test_who_means_to_be_open_says_so():
    environment = {"PLEACH_NAME": "b", "PLEACH_ADMIN_LISTEN": "0.0.0.0:7300", "PLEACH_INSECURE": "true"}
    assert load_settings(None, environment, {}).insecure


def test_validate_reads_the_certificates(tmp_path):
    failed = run("broker", "b", "--tls", tmp_path, "--validate")
    assert failed.returncode == 2
    assert "authority.pem: No such file" in failed.stderr


def test_validate_reads_the_access_file(tmp_path):
    file = tmp_path / "access.toml"
    file.write_text("[principals.alice]\nsubscribe = 'price >'\n")
    failed = run("broker", "b", "--access", file, "--validate")
    assert failed.returncode == 2
    assert "principals.alice.subscribe" in failed.stderr


def test_a_broker_has_one_name():
    failed = run("broker", "b", "--name", "c", "--validate")
    assert failed.returncode == 2
    assert "name: 'b' is given, and --name 'c'; leave one of them out" in failed.stderr
    assert run("broker", "b", "--name", "b", "--validate").returncode == 0


def test_validate_prints_the_effective_settings(tmp_path):
    file = file_with(tmp_path, 'name = "b"\n')
    done = run("broker", "--config", file, "--peer", "c=127.0.0.1:7", "--validate")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["peers"] == {"c": "127.0.0.1:7"}
    assert shown["limits"]["outbox_bytes_per_client"] == 64 * 1_048_576
    failed = run("broker", "--config", file, "--heartbeat", "-1", "--validate")
    assert failed.returncode == 2
    assert "flags: heartbeat" in failed.stderr


def test_a_port_that_is_taken_ends_it_with_a_sentence(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path)
        done = run("broker", "--name", "c", "--client-listen", broker.ready["client"])
        assert done.returncode == 2
        assert "client_listen" in done.stderr
        assert "Traceback" not in done.stderr


def test_json_logs(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, "--json-logs")
        assert broker.stop() == 0
        entries = [json.loads(line) for line in broker.log().splitlines()]
        assert "in memory only" in entries[0]["message"]
        assert {entry["level"] for entry in entries} == {"warning", "info"}


def test_overlay_show_draws_the_tree(tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path)
        ready = tmp_path / "ready"
        ready.mkdir()
        for broker in (a, b, c):
            (ready / broker.name).write_text(json.dumps(broker.ready))
        done = run("overlay", "show", ready)
        assert done.returncode == 0, done.stderr
        assert [line.strip("│├└─ ").split()[0] for line in done.stdout.splitlines()] == ["a", "b", "c"]
        admins = [broker.ready["admin"] for broker in (a, b)]
        c.kill()
        shown = run("overlay", "show", *admins, c.ready["admin"], "--json")
        assert shown.returncode == 1
        found = json.loads(shown.stdout)
        assert found["brokers"].keys() == {"a", "b"}
        assert len(found["failed"]) == 1
