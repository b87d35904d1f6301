"""Replication of a broker's data directory, and who may be that broker: views, members, promotion, replacement.

Pure machines, one for each machine and broker (`member.py`); drivers carry records, fills and time. It imports names of
messages only, and nothing of brokers: to a broker, promotion is a restart (docs/protocols/standby.md).
"""
