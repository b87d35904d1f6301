"""Reliable FIFO links over unreliable connections, as pure state machines.

session.py is one end of one link, endpoint.py a machine with all its links. Imports messages/ and effects.py.
"""
