"""Hosts on a Chord ring, and the tree that they derive from it (S3)."""
