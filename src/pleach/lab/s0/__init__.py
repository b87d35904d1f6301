"""S0 §VI: what the overlay primitives cost.

Imports sim/, scenario/, trace/, core/, and lab/ itself.
"""
