"""`pleach overlay abandon`: operations of running brokers that wait for something that does not come."""

import json
import re
import socket

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import SurveyError
from support.live.broker_process import chain, eventually, processes

CHAIN = [["a", "b"], ["b", "c"]]


def run(broker, *arguments):
    environment = {"PLEACH_VIA": broker.ready["admin"], "COLUMNS": "200"}
    return CliRunner().invoke(app, ["overlay", *map(str, arguments)], env=environment)


def post(broker, path, body):
    code, text = broker.post(path, json.dumps(body))
    return code, json.loads(text)


def opened(broker):
    """By broker, the operations that are open at those that answer."""
    brokers = json.loads(run(broker, "show", "--json").stdout)["brokers"]
    return {name: status["open_operations"] for name, status in brokers.items() if status["open_operations"]}


def links(broker):
    found = json.loads(run(broker, "show", "--json").stdout)["brokers"]
    return sorted([a, b] for a, status in found.items() for b in status["neighbours"] if a < b)


def test_a_broker_that_was_to_join_where_nobody_is_joins_elsewhere(tmp_path):
    with processes() as start, socket.create_server(("127.0.0.1", 0)) as nobody:
        a, new = start("a", tmp_path, "--welcome", "new"), start("new", tmp_path)
        body = {"to": "gone", "address": f"127.0.0.1:{nobody.getsockname()[1]}", "operation": "x", "timeout": 0}
        code, _ = post(new, "/overlay/add", body)
        assert code == 504
        ((name, (known,)),) = opened(new).items()
        assert (name, known["name"], known["what"], known["phase"]) == ("new", "x", "add", "joining asked")
        assert (known["waits_for"], known["why_not"]) == ({"gone": False}, "")
        shown = run(new, "show").output
        assert re.search(
            r"new: operation x, joining asked, for \d+ s, waits for gone \(down\); may be abandoned", shown
        )
        done = run(new, "abandon", "x")
        assert (done.exit_code, done.stdout.strip()) == (0, "abandoned at new: it is undone, and nothing has changed")
        assert opened(new) == {}
        status = json.loads(run(new, "status", "--json").stdout)["brokers"]["new"]["operations"]
        assert [(each["what"], each["state"], each["reason"]) for each in status] == [
            ("abandon x", "done", ""),
            ("add", "refused", "abandoned by an operator; nothing has changed"),
        ]
        added = run(new, "add", "new", "--to", "a", "--via", a.ready["admin"], "--at", new.ready["admin"])
        assert added.exit_code == 0, added.output
        eventually(lambda: links(a) == [["a", "new"]])


def test_a_swap_whose_partner_is_away_is_abandoned_and_the_partner_hears_of_it_when_it_is_back(tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True)
        b.kill()
        code, _ = post(a, "/overlay/swap", {"a": "a", "b": "b", "c": "c", "operation": "x", "timeout": 0})
        assert code == 504
        assert opened(a)["a"][0]["waits_for"] == {"b": False}
        assert run(a, "abandon", "x", "--timeout", "0").exit_code == 0
        assert opened(a) == {}
        a.kill()
        a.start()  # from its journal
        assert opened(a) == {}
        b.start()
        eventually(lambda: all(each.is_ready() for each in (a, b, c)))
        assert links(a) == CHAIN
        assert run(a, "swap", "a", "b", "c").exit_code == 0
        assert links(a) == [["a", "c"], ["b", "c"]]


def test_what_nobody_knows_is_said_to_be_unknown(tmp_path):
    with processes() as start:
        a = start("a", tmp_path)
        done = run(a, "abandon", "x")
        assert isinstance(done.exception, SurveyError)
        assert str(done.exception).startswith("no broker takes part in an operation 'x'; `pleach overlay show` lists")
        code, told = post(a, "/overlay/abandon", {"abandoned": "x"})
        assert (code, told["error"]) == (409, "a takes part in no operation x")
        code, _ = post(a, "/overlay/abandon", {"abandoned": "x", "at": "a"})
        assert code == 400


@pytest.mark.parametrize("operation", ["", "a b", "é"])
def test_names_that_no_operation_has_are_malformed(tmp_path, operation):
    with processes() as start:
        assert post(start("a", tmp_path), "/overlay/abandon", {"abandoned": operation})[0] == 400
