"""A story on real processes: brokers in three zones, clients under load, change after change, and the verdict."""
