"""The data source `format("pleach")`: recorded events, live streams, and a sink, for Spark's Python Data Source API.

Imports client/ (readers, publishing once), lake/ and core/events/.
"""

from __future__ import annotations

from pleach.spark.source.register import events, register

__all__ = ["events", "register"]
