"""pyarrow, loaded on demand: it is optional and slow to import."""

from __future__ import annotations

from typing import Any

from pleach.errors import MissingPartError

LIST = "list<"  # … of what, and ">"


def load_arrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise MissingPartError("traces are Parquet files, which need pyarrow: pip install 'pleach[trace]'") from None
    return pa


def arrow_type(name: str) -> Any:
    """The type that a column declares: an alias of Arrow's, or `list<…>` of one."""
    arrow = load_arrow()
    if name.startswith(LIST):
        return arrow.list_(arrow_type(name.removeprefix(LIST).removesuffix(">")))
    return arrow.type_for_alias(name)
