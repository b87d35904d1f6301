"""TLS between a connection and its transport: bytes in, bytes out, no sockets.

    transport ── encrypted ──▶ receive ──▶ plain         encrypt(plain) ──▶ encrypted ──▶ transport

asyncio's own TLS makes a connection known only after its handshake. Here the connection is there from the first byte:
one that is silent, or sends no TLS, counts as a stranger, has the deadline of one, and is told of in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from pleach.errors import TlsError

RECORD_BYTES_MAX = 16_384  # that one record of TLS carries
TLS_FIRST_BYTES = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")  # of every record: its kind, and a version
ALERT_NO_TLS = b"\x15\x03\x03\x00\x02\x02\x46"  # fatal, protocol_version: OpenSSL says nothing to what is no TLS
PLAIN_REASONS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})
NO_FALLBACK = "both sides need TLS, or neither ([tls] of the broker, tls= or --tls of the client); there is no fallback"

# Called with the other side's certificate (DER; None: it has shown none) and the name that it goes by: empty after the
# handshake, and that of its Hello then. Raises TlsError.
Check: TypeAlias = Callable[[bytes | None, str], None]


class TlsSide(msgspec.Struct, frozen=True):
    """How one side of a connection does TLS."""

    context: ssl.SSLContext
    check: Check
    is_server: bool = False


class TlsLayer:
    def __init__(self, side: TlsSide) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = side.context.wrap_bio(self._incoming, self._outgoing, server_side=side.is_server)
        self._check = side.check
        self.certificate: bytes | None = None  # of the other side
        self.node = ""  # the name that the other side goes by
        self.is_secured = False
        self.is_ended = False  # the other side has said that nothing follows
        self.failure: TlsError | None = None
        self.secured: asyncio.Future[None] | None = None  # who dials waits for it

    def receive(self, data: bytes) -> bytes:
        """What has arrived, decrypted. `take` has what is to be sent, also after an error. Raises TlsError."""
        self._incoming.write(data)
        try:
            return self._plain() if self.is_secured or self.shake() else b""
        except ssl.SSLError as error:
            if not self.is_secured and error.reason in PLAIN_REASONS:
                self._outgoing.write(ALERT_NO_TLS)
            raise self._failed(meaning(error, is_secured=self.is_secured)) from None

    def shake(self) -> bool:
        """Whether the handshake is complete. Raises TlsError."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.certificate = self._object.getpeercert(binary_form=True)
        self.check("")
        self.is_secured = True
        if self.secured is not None and not self.secured.done():
            self.secured.set_result(None)
        return True

    def check(self, node: str) -> None:
        """Raises TlsError where the other side may not go by this name."""
        self.node = node
        try:
            self._check(self.certificate, node)
        except TlsError as error:
            raise self._failed(error) from None

    def encrypt(self, data: bytes) -> bytes:
        self._object.write(data)
        return self._outgoing.read()

    def take(self) -> bytes:
        """What TLS itself has to send: handshakes, alerts."""
        return self._outgoing.read()

    def end(self) -> bytes:
        """The last bytes: nothing follows."""
        with contextlib.suppress(ssl.SSLError, ValueError):  # the other side has not said so, and need not
            self._object.unwrap()
        return self._outgoing.read()

    def lost(self, reason: str) -> None:
        """The connection has ended."""
        if not self.is_secured and self.failure is None:
            remedy = "is TLS spoken there? " + NO_FALLBACK
            self.failure = TlsError(f"the connection ended during the handshake ({reason})", remedy)
        if self.secured is not None and not self.secured.done():
            self.secured.set_exception(self.failure or ConnectionError(reason))
        if self.failure is not None:
            self.failure.__traceback__ = self.failure.__context__ = None  # they hold all that has arrived

    def _plain(self) -> bytes:
        parts: list[bytes] = []
        try:
            while self._incoming.pending or self._object.pending():  # to ask for more than there is takes long
                part = self._object.read(RECORD_BYTES_MAX)
                if not part:
                    self.is_ended = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _failed(self, error: TlsError) -> TlsError:
        self.failure = error
        return error


def meaning(error: ssl.SSLError, *, is_secured: bool = False) -> TlsError:
    """In words, with the remedy."""
    reason = error.reason or ""
    if reason in PLAIN_REASONS and not is_secured:
        return TlsError("what the other side sends is no TLS", NO_FALLBACK)
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of the other side is not accepted: {error.verify_message}"
        return TlsError(text, "it must be issued by this network's authority (`pleach certs show` lists them)")
    if "ALERT" in reason:
        said = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return TlsError(f"the other side refuses: {said}", "give it a certificate of its network with --tls")
    text = reason.replace("_", " ").lower() or str(error)
    return TlsError(text, "is the certificate one of this network, and not expired?")
