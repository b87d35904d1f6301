"""The control loop on Spark: telemetry of brokers as a stream, the search over executors (docs/protocols/improve.md).

The loop itself is `operate/improve.py`; this package is an engine for it. `telemetry.py` writes and reads reports of
brokers, `engine.py` computes flows and plans.
"""
