"""Content-based routing of one broker: entries by direction, exports to neighbours, and its clients' requests."""
