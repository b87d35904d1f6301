"""The control loop on Spark: telemetry of brokers as a stream, the search over executors (docs/protocols/improve.md).

The loop itself is `operate/improve.py`; this package is an engine for it.
"""
