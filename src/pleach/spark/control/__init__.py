"""The control loop on Spark: what live brokers saw, as a stream; the search over executors (docs/protocols/improve.md).

The loop itself is `operate/improve.py`; here is an engine for it. `telemetry.py` writes and reads what brokers have
seen, `engine.py` makes flows and plans of it.
"""
