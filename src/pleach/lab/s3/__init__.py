"""S3 §4, §5: a tree kept by a ring.

Imports sim/ring_network.py and core/ring/.
"""
