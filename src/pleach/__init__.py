"""Pleach: content-based publish/subscribe whose broker tree re-weaves itself while events flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pleach.client.connect import connect

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]


def __getattr__(name: str) -> Any:
    """`pleach.connect` brings the event loop along, which the simulator and the brokers' core do without."""
    if name == "connect":
        from pleach.client.connect import connect  # noqa: PLC0415 - not before it is used

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
