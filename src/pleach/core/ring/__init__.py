"""Hosts on a Chord ring, and the tree that they derive from it (S3).

Imports messages/ and effects.py; drivers are sim/ring_network.py and server/ring/.
"""
