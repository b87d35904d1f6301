"""The data source `format("pleach")`: recorded events, live streams, and a sink, for Spark's Python Data Source API."""

from __future__ import annotations

from pleach.spark.source.register import events, register

__all__ = ["events", "register"]
