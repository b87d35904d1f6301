"""The access file: what is not written is denied, what is wrong is named, and the file is taken whole or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pleach.access.access_file import Access, load_access
from pleach.access.identity import Identity, IdentityKind
from pleach.access.keys import public_text, read_public_key
from pleach.access.principals import Verb
from pleach.core.access.rights import NOTHING, Denied, Granted, judge
from pleach.core.access.tenants import TENANT
from pleach.core.events.language import parse_filter
from pleach.core.messages import Layer
from pleach.errors import AccessError


def load(tmp_path: Path, text: str) -> Access:
    file = tmp_path / "access.toml"
    file.write_text(text)
    return load_access(file)


def test_an_empty_file_denies_all(tmp_path: Path) -> None:
    access = load(tmp_path, "")
    assert len(access) == 0
    assert access.rights_of("alice", "alice") == NOTHING
    assert access.of_certificate(Identity("acme", IdentityKind.CLIENT, "alice")) is None


def test_what_is_not_written_is_denied(tmp_path: Path) -> None:
    access = load(tmp_path, "[principals.alice]\n")
    alice = access.get("alice")
    assert alice is not None
    assert alice.may_be("alice")
    assert not alice.may_be("alice2")
    assert not alice.verbs
    for right in (alice.rights.publish, alice.rights.subscribe, alice.rights.advertise):
        assert not right.matches({})
        assert not right.matches({"topic": "x"})


def test_rights_are_filters_within_the_tenant(tmp_path: Path) -> None:
    access = load(
        tmp_path,
        """
        [principals.trader]
        tenant = "acme"
        names = ["trader", "desk-*"]
        publish = "topic = 'orders'"
        subscribe = "price < 100"
        """,
    )
    rights = access.rights_of("trader", "acme/desk-7")
    assert rights.publish.matches({TENANT: "acme", "topic": "orders"})
    assert not rights.publish.matches({TENANT: "other", "topic": "orders"})
    assert not rights.publish.matches({"topic": "orders"})
    assert rights.advertise == rights.publish
    assert access.rights_of("trader", "other/desk-7") == NOTHING
    assert access.rights_of("trader", "desk-7") == NOTHING
    assert access.rights_of("trader", "acme/clerk") == NOTHING


def test_the_tenant_does_not_count_as_narrowing(tmp_path: Path) -> None:
    access = load(tmp_path, "strict = true\n[principals.a]\ntenant = 't'\nsubscribe = 'price < 100'\n")
    rights = access.rights_of("a", "t/a")
    granted = judge(parse_filter("price < 50"), Layer.SUBSCRIPTIONS, rights)
    assert granted == Granted(parse_filter(f"price < 50 AND {TENANT} = 't'"), is_narrowed=False)
    assert isinstance(judge(parse_filter("price < 150"), Layer.SUBSCRIPTIONS, rights), Denied)


def test_the_default_tenant_does_not_see_the_others(tmp_path: Path) -> None:
    rights = load(tmp_path, "[principals.a]\nsubscribe = 'TRUE'\n").rights_of("a", "a")
    assert rights.subscribe.matches({"x": 1})
    assert not rights.subscribe.matches({"x": 1, TENANT: "acme"})
    every = load(tmp_path, "[principals.a]\ntenant = '*'\nsubscribe = 'TRUE'\n")
    assert every.rights_of("a", "acme/a").subscribe.matches({"x": 1, TENANT: "acme"})


def test_keys_and_subjects_find_their_principal(tmp_path: Path) -> None:
    key = public_text(Ed25519PrivateKey.generate())
    access = load(tmp_path, f"[principals.a]\nkey = '{key}'\nverbs = ['read', 'move']\n")
    found = access.of_key(read_public_key(key))
    assert found is not None
    assert found.verbs == {Verb.READ, Verb.MOVE}
    assert access.of_key(bytes(32)) is None


def test_a_component_has_the_rights_of_the_principal_that_lists_it(tmp_path: Path) -> None:
    access = load(tmp_path, "[principals.a]\ncomponents = ['sum-*']\nnames = []\npublish = 'TRUE'\n")
    host = access.host_of("sum-1")
    assert host is not None
    assert host.name == "a"
    assert access.host_of("product") is None
    assert access.rights_of("a", "sum-1") == NOTHING, "a client may not be one"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[principals.a", "no TOML"),
        ("[principals.a]\npublish = 'price >'", "principals.a.publish"),
        ("[principals.a]\nsubscribe = 3", "principals"),
        ("[principals.a]\nread = true", "unknown field"),
        ("[principals.a]\nverbs = ['drink']", "verbs"),
        ("[principals.a]\nsubscribe = 'x < 5'\nhidden = ['x']\nstrict = true", "hidden, and the right is strict"),
        ("[principals.a]\nkey = 'abc'", "Ed25519"),
        ("[principals.a]\nnames = ['x/y']", "without a slash"),
        ("[principals.a]\ntenant = 'x/y'", "without a slash"),
        ("[principals.a]\ncomponents = ['x/y']", "without a slash"),
        ("[principals.a]\nnames = ['x*y']", "principals.a.names"),
        ("[principals.a]\nnames = ['']", "principals.a.names"),
        ("[principals.'a*']", "many names"),
        ("[principals.a]\nsubscribe = ''", "principals.a.subscribe"),
        ("[principals.a]\npublish = ''", "principals.a.publish"),
        ("[principals.a]\nquotas = { connections = -1 }", "principals.a.quotas.connections"),
        ("[principals.a]\nquotas = { events_per_second = nan }", "principals.a.quotas.events_per_second"),
        ("[principals.a]\ntoken = 's'\n[principals.b]\ntoken = 's'", "same key or token"),
        ("[tokens]\nissuer = 'i'\naudience = 'a'\nkeys = 'missing.pem'", "cannot be read"),
        (
            '[principals.a]\npublish = "' + " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(20)) + '"',
            "principals.a",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(AccessError, match=part.replace(".", r"\.")):
        load(tmp_path, text)
