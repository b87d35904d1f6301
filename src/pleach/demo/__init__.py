"""A story on real processes: brokers in three zones, clients under load, one change after the other, and the verdict."""
