"""The files of a new network: each broker's settings are valid and agree, and what would harm is refused."""

import json
import re
import stat
import tomllib

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import FoundingError
from pleach.founding.layout import BROKERS_MAX, laid_out
from pleach.founding.readme import readme
from pleach.founding.write import write_network
from pleach.server.settings import load_settings
from pleach.web.site import TOP

PORT = 7_100


def init(place, *flags):
    return CliRunner().invoke(app, ["network", "init", str(place), *flags])


def settings_of(place, name, monkeypatch):
    """As the broker reads them, which is started in its own directory."""
    monkeypatch.chdir(place / name)
    done = CliRunner().invoke(app, ["broker", "--config", "broker.toml", "--validate"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("flags", [[], ["--tls"], ["--zones", "east,west"]])
def test_each_broker_has_valid_settings_and_the_whole_profile(tmp_path, flags, monkeypatch):
    place = tmp_path / "net"
    done = init(place, "--brokers", "4", "--json", *flags)
    assert done.exit_code == 0, done.output
    told = {broker["name"]: broker for broker in json.loads(done.stdout)["brokers"]}
    settings = {name: settings_of(place, name, monkeypatch) for name in told}
    assert [*told] == ["b1", "b2", "b3", "b4"]
    for name, each in settings.items():
        assert (each["name"], each["zone"]) == (name, told[name]["zone"])
        assert all(each[part] is not None for part in ("stabilise", "standby", "improve", "relay", "ring"))
        assert (each["tls"] is not None, each["access"] is not None) == ("--tls" in flags, "--tls" in flags)
        assert each["peer_listen"] == told[name]["peer"]
    ports = [each[f"{port}_listen"] for each in settings.values() for port in ("client", "peer", "admin")]
    assert len(set(ports)) == len(ports)


def test_all_join_through_others_but_the_first(tmp_path):
    write_network(laid_out("acme", count=5, port=PORT), tmp_path / "net")
    rings = {
        f"b{n}": tomllib.loads((tmp_path / "net" / f"b{n}" / "broker.toml").read_text())["ring"] for n in range(1, 6)
    }
    assert rings["b1"] == {"found": True}
    for name in ("b2", "b3", "b4", "b5"):
        own = load_settings(tmp_path / "net" / name / "broker.toml", {}, {}).peer_listen
        assert len(rings[name]["join"]) == 3
        assert own not in rings[name]["join"]


def test_hosts_and_zones_are_taken_in_turn():
    network = laid_out("acme", count=4, hosts=["h1", "h2", "::1"], zones=["x", "y"], port=PORT, is_secured=True)
    assert [str(each.peer) for each in network.brokers] == ["h1:7201", "h2:7201", "[::1]:7201", "h1:7202"]
    assert [each.zone for each in network.brokers] == ["x", "y", "x", "y"]
    assert network.spare.name == "b5"
    page = readme(network)
    assert re.findall("^scp -r .*", page, re.MULTILINE) == [
        "scp -r b1 h1:",
        "scp -r b2 h2:",
        "scp -r b3 [::1]:",
        "scp -r b4 h1:",
    ]
    assert "`pleach overlay remove b4 --via h1:7301 --tls certs/operators/operator`" in page
    assert "`pleach certs broker certs b5 --host HOST`" in page


def test_the_page_for_other_machines_says_how_one_more_joins_without_certificates():
    network = laid_out("acme", count=2, hosts=["h1", "h2"], port=PORT, is_insecure=True)
    assert "PLEACH_INSECURE=true" in readme(network)


def test_spaces_behind_commas_are_no_part_of_a_zone(tmp_path):
    done = init(tmp_path / "net", "--zones", "east, west ,", "--host", "127.0.0.1, 127.0.0.2", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["brokers"]
    assert [broker["zone"] for broker in told] == ["east", "west", "east"]
    assert told[1]["peer"] == "127.0.0.2:7201"


def test_the_page_says_where_the_dashboard_is():
    plain, secured = (readme(laid_out("acme", count=3, port=PORT, is_secured=tls)) for tls in (False, True))
    assert f"http://127.0.0.1:7301{TOP}/\n" in plain
    assert "https://" not in secured  # a browser has no certificate of the network
    assert "`pleach dashboard 127.0.0.1:7301 --tls certs/operators/operator`" in secured


def test_nobody_but_the_owner_reads_keys(tmp_path):
    write_network(laid_out("acme", count=2, port=PORT, is_secured=True), tmp_path / "net")
    keys = [*(tmp_path / "net").glob("**/key.pem"), *(tmp_path / "net").glob("**/authority.key.pem")]
    assert len(keys) == 7  # two brokers with two copies each, a client, an operator, and the authority
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert not [*(tmp_path / "net").glob("b*/**/authority.key.pem")]


def test_a_directory_that_is_not_empty_is_left_as_it_is(tmp_path):
    (tmp_path / "broker.db").write_text("all that b1 knows")
    done = init(tmp_path)
    assert isinstance(done.exception, FoundingError)
    assert str(done.exception).endswith("broker.db is in it; give a directory that is empty or new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["broker.db"]


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "net").write_text("")
    with pytest.raises(FoundingError, match=r"there is a file of this name"):
        write_network(laid_out("acme", count=2, port=PORT), tmp_path / "net")
    with pytest.raises(FoundingError, match=r"Not a directory"):
        write_network(laid_out("acme", count=2, port=PORT), tmp_path / "net" / "inner")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"zones": ["east", "w" * 256]}, r"--zones: 'w+'… is longer than 255 bytes"),
        ({"hosts": ["127.0.0.1", "localhost"]}, r"--host: localhost and 127.0.0.1 are one address.*name it once"),
        ({"count": 1}, r"--brokers: 1 brokers; 2 to 99; .* one alone has nowhere to put a copy"),
        ({"count": BROKERS_MAX + 1}, r"--brokers: 100 brokers"),
        ({"port": 80}, r"--port: 80 leaves no room; 1024 to 65235"),
        ({"port": 65_500}, r"--port: 65500 leaves no room"),
        ({"hosts": ["10.0.0.1", "10.0.0.2"]}, r"--host: brokers on 10.0.0.1, 10.0.0.2 are open .*--tls, or --insecure"),
        ({"hosts": ["a b"]}, r"--host: 'a b' is no host"),
        ({"hosts": ["h", "h"]}, r"--host: h is there twice"),
        ({"hosts": ["0.0.0.0"]}, r"--host: 0.0.0.0 leads nowhere"),
        ({"zones": ['e"; x = "']}, r"--zones: .* is no zone"),
        ({"zones": ["e\nx"]}, r"--zones: .* is no zone"),
        ({"name": "A B"}, r"--name: 'A B' is no network"),
    ],
)
def test_what_would_not_work_is_refused_with_the_remedy(changed, says):
    with pytest.raises(FoundingError, match=says):
        laid_out(**{"name": "acme", "count": 3, "port": PORT, **changed})


def test_without_certificates_other_machines_are_let_in_only_on_demand(tmp_path, monkeypatch):
    assert init(tmp_path / "net", "--host", "10.0.0.1,10.0.0.2", "--insecure").exit_code == 0
    assert settings_of(tmp_path / "net", "b1", monkeypatch)["insecure"]
