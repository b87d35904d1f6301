"""Pleach: content-based publish/subscribe with a tree of brokers that is reconfigured while events flow.

`pleach.connect` is the entry for applications. ARCHITECTURE.md lists the rooms, and which may import which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pleach.access.tls import Tls
    from pleach.client.connect import connect

__version__ = "0.1.0"
__all__ = ["Tls", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    """Import these when they are used: the simulator and the core do without asyncio and certificates."""
    if name == "connect":
        from pleach.client.connect import connect  # noqa: PLC0415 - see above

        return connect
    if name == "Tls":
        from pleach.access.tls import Tls  # noqa: PLC0415 - see above

        return Tls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
