"""Brokers as processes, clients over TCP, state on disk."""
