"""What another machine needs to run a broker, besides its data: read where the broker runs, sent with a copy."""

from __future__ import annotations

import logging
from pathlib import Path

from pleach.access.access_file import token_keys_file
from pleach.server.settings import BrokerSettings, effective
from pleach.server.standby.messages import FILE_BYTES_MAX, BrokerFiles

log = logging.getLogger(__name__)


def files_of(settings: BrokerSettings) -> BrokerFiles:
    """A file that cannot be read is empty: a copy without it is better than none."""
    tls, access = settings.tls, settings.access
    return BrokerFiles(
        effective(settings).encode(),
        _content(tls.path("certificate")) if tls else b"",
        _content(tls.path("key")) if tls else b"",
        _content(access.file) if access else b"",
        _content(token_keys) if access and (token_keys := token_keys_file(Path(access.file))) else b"",
    )


def _content(path: str | Path) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        log.warning("%s is not copied to standbys: %s", path, error.strerror)
        return b""
    if len(content) > FILE_BYTES_MAX:
        log.warning("%s is not copied to standbys: it has more than %s bytes", path, f"{FILE_BYTES_MAX:,}")
        return b""
    return content
