"""Hosts on a ring (Chord), and the tree that the ring keeps among them (S3)."""
