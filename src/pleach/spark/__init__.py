"""Data work on Spark: sessions, the lake of traces and results, campaigns, audits, streams."""
