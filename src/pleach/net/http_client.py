"""Ask the operators' port of a broker: one small HTTP request, one JSON answer, bounded in size and time.

Addresses are told by other brokers, so whoever answers is not trusted: h11 parses the answer, which must be whole and a
JSON object, and no name or address can add a line to the request.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import h11
import msgspec

from pleach.errors import DeniedError, SettingsError, TlsError, UnreachableError
from pleach.net.addresses import Address, is_loopback, parse_address, why
from pleach.net.own_tls import end_streams, open_streams, own_tls, own_token
from pleach.net.tls_layer import NO_FALLBACK, TLS_FIRST_BYTES

ANSWER_BYTES_MAX = 64 * 1_048_576  # the whole status of a large broker
HEAD_BYTES_MAX = 16_384
READ_BYTES = 65_536
SECONDS_MAX = 5.0
DENIED = (401, 403)
NO_BROKER = "what answers there is no broker's admin port"


class Answer(NamedTuple):
    code: int
    value: Any

    @property
    def is_ok(self) -> bool:
        return self.code == 200


async def ask(
    address: str,
    path: str,
    body: object = None,
    *,
    seconds_max: float = SECONDS_MAX,
    bytes_max: int = ANSWER_BYTES_MAX,
) -> Answer:
    """GET a page, or POST a body. Raises UnreachableError where nobody answers, or no broker, and DeniedError where
    this process has not logged in, or may not do that.
    """
    try:
        async with asyncio.timeout(seconds_max):
            code, content = await _exchange(_located(address), _request(address, path, body), bytes_max)
        answer = Answer(code, msgspec.json.decode(content, type=dict[str, Any]))
    except TimeoutError:
        raise UnreachableError(address, f"no answer within {seconds_max:g} s") from None
    except OSError as error:
        raise UnreachableError(address, why(error)) from None
    except OverflowError:
        raise UnreachableError(address, f"an answer of more than {bytes_max:,} bytes") from None
    except (h11.ProtocolError, msgspec.DecodeError, ValueError, RecursionError):
        raise UnreachableError(address, NO_BROKER) from None
    if code in DENIED:
        raise DeniedError(address, str(answer.value.get("error", code)), str(answer.value.get("remedy", "")))
    return answer


def _located(address: str) -> Address:
    try:
        return parse_address(address, key="admin address")
    except SettingsError as error:
        raise UnreachableError(address, f"{error.reason}; {error.remedy}") from None


def _request(address: str, path: str, body: object) -> list[h11.Request | h11.Data | h11.EndOfMessage]:
    fields = {"Host": address, "Connection": "close"}
    if (token := own_token.get()) is not None:
        _check_private(address)
        fields["Authorization"] = f"Bearer {token()}"
    if body is None:
        return [h11.Request(method="GET", target=path, headers=list(fields.items())), h11.EndOfMessage()]
    content = msgspec.json.encode(body)
    fields |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    head = h11.Request(method="POST", target=path, headers=list(fields.items()))
    return [head, h11.Data(data=content), h11.EndOfMessage()]


def _check_private(address: str) -> None:
    """A token is good for whoever has it, and addresses are told by others: with TLS, only brokers get it."""
    if own_tls.get() is None and not is_loopback(address):
        raise DeniedError(address, "a token is not sent to other machines without TLS", "give --tls, too")


async def _exchange(
    address: Address, request: list[h11.Request | h11.Data | h11.EndOfMessage], bytes_max: int
) -> tuple[int, bytes]:
    """The code and the body of the answer. Raises OverflowError where the body is too long."""
    wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    reader, writer = await open_streams(address.host, address.port)
    code, content = 0, bytearray()
    try:
        writer.writelines([wire.send(event) for event in request])
        while True:
            match wire.next_event():
                case h11.NEED_DATA:
                    wire.receive_data(_checked(await reader.read(READ_BYTES), wire))
                case h11.Response(status_code=status):
                    code = status
                case h11.Data(data=data):
                    content += data
                    if len(content) > bytes_max:
                        raise OverflowError
                case h11.EndOfMessage():
                    return code, bytes(content)
                case h11.ConnectionClosed() | h11.PAUSED:
                    raise h11.RemoteProtocolError(NO_BROKER)
    finally:
        end_streams(writer)


def _checked(data: bytes, wire: h11.Connection) -> bytes:
    """Raises TlsError where a port that speaks TLS answers to plain text."""
    if wire.their_state is h11.SEND_RESPONSE and data[:2] in TLS_FIRST_BYTES:
        raise TlsError("the other side speaks TLS, and this side does not", NO_FALLBACK)
    return data
