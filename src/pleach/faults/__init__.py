"""Faults: pure rules for damage to state and messages, with a random stream given.

The simulator and a broker with `debug_faults` use them alike. Imports core/ only.
"""
