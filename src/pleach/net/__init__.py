"""Networking that broker processes, clients and tools share: addresses, connections, a small HTTP client.

May import core.
"""
