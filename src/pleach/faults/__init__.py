"""Faults: pure rules for damage to state and messages, with a random stream given."""
