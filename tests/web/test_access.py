"""Who may ask for what: pages of other sites get nothing, and change nothing."""

import pytest

from pleach.web.site import AccessCheck

HOST = {"host": "127.0.0.1:7800"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7800", "localhost:7800", "[::1]:7800", "10.0.0.2", "LOCALHOST", "board.example:80"]
)
def test_addresses_and_known_names_are_seen(host):
    assert AccessCheck(["board.example"]).why_not_seen({"host": host}) == ""


@pytest.mark.parametrize("host", ["evil.example:7800", "", "127.0.0.1.evil.example", "localhost.evil.example:7800"])
def test_a_name_that_was_pointed_at_us_is_not(host):
    assert "nothing here is called" in AccessCheck(["board.example"]).why_not_seen({"host": host})


def test_the_page_itself_may_act():
    guard = AccessCheck()
    fields = {**HOST, "x-pleach-token": guard.token, "origin": "http://127.0.0.1:7800", "sec-fetch-site": "same-origin"}
    assert guard.why_not_done(fields) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x-pleach-token": ""}, "former process"),
        ({"x-pleach-token": "wrong"}, "former process"),
        ({"x-pleach-token": "ü"}, "former process"),
        ({"origin": "http://evil.example"}, "evil.example"),
        ({"origin": "http://127.0.0.1:9999"}, "9999"),
        ({"origin": "null"}, "null"),
        ({"sec-fetch-site": "cross-site"}, "another site"),
        ({"sec-fetch-site": "same-site"}, "another site"),
    ],
)
def test_others_may_not(change, reason):
    guard = AccessCheck()
    assert reason in guard.why_not_done({**HOST, "x-pleach-token": guard.token, **change})


def test_tokens_are_of_one_process():
    assert AccessCheck().token != AccessCheck().token
