"""The access file: principals, their credentials, rights and quotas, in TOML.

    [tokens]                                   # optional: log-in by tokens of an identity provider
    issuer = "https://id.example"
    audience = "pleach"
    keys = "issuer.pem"                        # relative to this file

    [principals.trader]
    tenant = "acme"
    names = ["trader", "trader-*"]             # as which clients it may connect; default: its own name
    key = "lq0u…="                             # or keys = […]; a certificate `client/trader` needs no line
    token = "auth0|42"                         # the subject in its tokens
    publish = "topic = 'orders'"               # a missing right is none
    subscribe = "topic IN ('orders', 'prices')"
    hidden = ["margin"]
    quotas = { connections = 10 }

    [principals.ops]
    verbs = ["read", "reweave"]

Rule 1: what is not written is denied; an empty file denies all.
Rule 2: the file is taken as a whole or not at all: the first thing that is wrong is named, and nothing changes.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pleach.access.identity import Identity, IdentityKind
from pleach.access.keys import read_public_key
from pleach.access.principals import ANY, EVERY_TENANT, NO_QUOTAS, TENANTS_MAY, Principal, Quotas, RightTexts, Verb
from pleach.access.tokens import TokenSettings, TokenSubject, TokenVerifier
from pleach.core.access.rights import NOTHING, Rights
from pleach.core.events.language import check_filter, parse_filter
from pleach.errors import AccessError, FilterError, place_and_reason


class KeyProof(NamedTuple):
    public: bytes


class TokenProof(NamedTuple):
    """`fingerprint`: of the issuer and its keys, by which the token was verified."""

    subject: str
    fingerprint: bytes


Proof: TypeAlias = Identity | KeyProof | TokenProof  # what a log-in has shown

FILE_BYTES_MAX = 64 * 1_048_576
NAME_BYTES_MAX = 255


class PrincipalTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One principal, as the file has it."""

    tenant: str = ""
    names: tuple[str, ...] | None = None  # None: its own name
    components: tuple[str, ...] = ()
    key: str = ""
    keys: tuple[str, ...] = ()
    token: str = ""
    publish: str = "FALSE"
    subscribe: str = "FALSE"
    advertise: str = ""  # empty: as `publish`
    hidden: tuple[str, ...] = ()
    strict: bool | None = None  # None: as the file says
    quotas: Quotas = NO_QUOTAS
    verbs: tuple[Verb, ...] = ()


class AccessTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    strict: bool = False  # refuse subscriptions that are wider than the right, instead of narrowing them
    tokens: TokenSettings | None = None
    principals: dict[str, PrincipalTable] = {}


class Access:
    """The principals of a file, found by what they prove."""

    def __init__(
        self,
        principals: Mapping[str, Principal],
        *,
        keys: Mapping[bytes, str],
        subjects: Mapping[str, str],
        verifier: TokenVerifier | None,
    ) -> None:
        self._principals = principals
        self._keys = keys
        self._subjects = subjects
        self._verifier = verifier
        self._hosts = [each for each in principals.values() if each.components]

    def __len__(self) -> int:
        return len(self._principals)

    def get(self, name: str) -> Principal | None:
        return self._principals.get(name)

    def of_certificate(self, identity: Identity) -> Principal | None:
        """Certificates of brokers are for the peers' port."""
        return None if identity.kind is IdentityKind.BROKER else self._principals.get(identity.name)

    def of_key(self, public: bytes) -> Principal | None:
        return self._principals.get(self._keys.get(public, ""))

    def of_token(self, token: str) -> tuple[Principal | None, TokenSubject]:
        """Raises AccessError where the token is not valid."""
        if self._verifier is None:
            raise AccessError("tokens are not accepted here", "log in by a certificate or a key")
        subject = self._verifier.verify(token)
        return self._principals.get(self._subjects.get(subject.subject, "")), subject

    def proof_of(self, subject: TokenSubject) -> TokenProof:
        """Of a token that was verified just now."""
        assert self._verifier is not None
        return TokenProof(subject.subject, self._verifier.fingerprint)

    def of_proof(self, proof: Proof) -> Principal | None:
        """Whose a log-in is by this file: credentials may be others than when it was made."""
        match proof:
            case Identity():
                return self.of_certificate(proof)
            case KeyProof(public):
                return self.of_key(public)
            case TokenProof(subject, fingerprint):
                is_verified = self._verifier is not None and self._verifier.fingerprint == fingerprint
                return self._principals.get(self._subjects.get(subject, "")) if is_verified else None

    def rights_of(self, principal: str, client: str) -> Rights:
        """The rights of a client that this principal has logged in as."""
        found = self._principals.get(principal)
        return found.rights if found is not None and found.may_be(client) else NOTHING

    def host_of(self, component: str) -> Principal | None:
        """The principal whose rights a component has."""
        return next((each for each in self._hosts if each.may_host(component)), None)


def load_access(file: Path) -> Access:
    """Raises AccessError with the place and the remedy."""
    tables = _read(file)
    verifier = _verifier(tables.tokens, file.parent) if tables.tokens else None
    principals = {name: _principal(name, table, is_strict=tables.strict) for name, table in tables.principals.items()}
    keys = _by_credential(
        (name, read_public_key(key)) for name, table in tables.principals.items() for key in _keys(table)
    )
    subjects = _by_credential((name, table.token) for name, table in tables.principals.items() if table.token)
    return Access(principals, keys=keys, subjects=subjects, verifier=verifier)


def _read(file: Path) -> AccessTables:
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise AccessError(f"{file}: larger than {FILE_BYTES_MAX:,} bytes", "split the network, or use tenants")
        content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise AccessError(f"{file} cannot be read: {error.strerror}", "check [access] file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AccessError(f"{file}: no TOML: {error}", "correct the line named") from None
    try:
        return msgspec.convert(content, AccessTables)
    except msgspec.ValidationError as error:
        key, reason = place_and_reason(error)
        raise AccessError(f"{file}: {key}: {reason}", "see docs/reference/access.md for the keys") from None


def token_keys_file(file: Path) -> Path | None:
    """The file with the keys of the issuer of tokens, where an access file names one, and is usable."""
    try:
        tokens = _read(file).tokens
    except AccessError:
        return None
    return _keys_file(tokens, file.parent) if tokens else None


def _keys_file(settings: TokenSettings, directory: Path) -> Path:
    """Where the broker was promoted on another machine, it is beside the access file, wherever it was before."""
    file = directory / settings.keys
    return file if file.exists() else directory / file.name


def _verifier(settings: TokenSettings, directory: Path) -> TokenVerifier:
    file = _keys_file(settings, directory)
    try:
        return TokenVerifier(settings, file.read_bytes())
    except OSError as error:
        raise AccessError(
            f"tokens.keys: {file} cannot be read: {error.strerror}", "give the file of the public key"
        ) from None


def _keys(table: PrincipalTable) -> tuple[str, ...]:
    return (table.key, *table.keys) if table.key else table.keys


def _by_credential(pairs: Iterator[tuple[str, Any]]) -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name, credential in pairs:
        if found.setdefault(credential, name) != name:
            raise AccessError(
                f"principals {found[credential]!r} and {name!r} have the same key or token", "give each its own"
            )
    return found


def _principal(name: str, table: PrincipalTable, *, is_strict: bool) -> Principal:
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX or not name.isprintable():
        reason = f"principals.{name[:40]!r}: no name of a principal"
        raise AccessError(reason, f"1 to {NAME_BYTES_MAX} bytes of printable text")
    _check_name(name, "tenant", table.tenant)
    for key, patterns in (
        ("names", table.names if table.names is not None else (name,)),
        ("components", table.components),
    ):
        for pattern in patterns:
            _check_pattern(name, key, pattern)
    if table.names is None and ANY in name:
        raise AccessError(f"principals.{name}.names: missing", f"{name!r} would stand for many names: say which")
    for key, most in msgspec.structs.asdict(table.quotas).items():
        if not 0 <= most < math.inf:
            raise AccessError(f"principals.{name}.quotas.{key}: {most} is no quota", "a number; 0 is no limit")
    if table.tenant not in ("", EVERY_TENANT) and (beyond := sorted({*table.verbs} - TENANTS_MAY)):
        reason = f"principals.{name}.verbs: {str(beyond[0])!r} concerns all tenants, and it is of {table.tenant!r}"
        remedy = f"leave it out, or leave the tenant out; operators of a tenant may {' and '.join(sorted(TENANTS_MAY))}"
        raise AccessError(reason, remedy)
    return Principal(
        name,
        table.tenant,
        table.names if table.names is not None else (name,),
        table.components,
        _texts(name, table, is_strict=is_strict if table.strict is None else table.strict),
        table.quotas,
        frozenset(table.verbs),
    )


def _check_name(principal: str, key: str, text: str) -> None:
    if "/" in text or len(text.encode()) > NAME_BYTES_MAX or not text.isprintable():
        reason = f"principals.{principal}.{key}: {text[:40]!r} is no name"
        raise AccessError(
            reason, f"at most {NAME_BYTES_MAX} printable bytes, without a slash (the tenant is a key of its own)"
        )


def _check_pattern(principal: str, key: str, pattern: str) -> None:
    _check_name(principal, key, pattern)
    if not pattern or ANY in pattern[:-1]:
        reason = f"principals.{principal}.{key}: {pattern[:40]!r} is no name"
        raise AccessError(reason, f"a name, or the beginning of names with {ANY} at its end")


def _texts(name: str, table: PrincipalTable, *, is_strict: bool) -> RightTexts:
    texts = RightTexts(table.publish, table.subscribe, table.advertise or table.publish, table.hidden, is_strict)
    for key in ("publish", "subscribe", "advertise"):
        if key != "advertise" or table.advertise:  # else as `publish`
            _check_filter(name, key, getattr(table, key))
    if is_strict and table.hidden:
        _check_strict(name, texts)
    return texts


def _check_strict(name: str, texts: RightTexts) -> None:
    """No filter can lie within a right that names what the filter may not name."""
    for key, text in (("subscribe", texts.subscribe), ("advertise", texts.advertise)):
        named = {attribute for each in parse_filter(text).conjunctions for attribute in each.constraints}
        if hidden := sorted(named & {*texts.hidden}):
            reason = f"principals.{name}.{key}: it names {', '.join(hidden)}, which is hidden, and the right is strict"
            raise AccessError(reason, "say strict = false: then subscriptions are narrowed")


def _check_filter(name: str, key: str, text: str) -> None:
    try:
        check_filter(text)
    except FilterError as error:
        raise AccessError(f"principals.{name}.{key}: {error}", "correct the filter; TRUE is everything") from None
