"""Coloured networks (S1 §4.5): a self-stabilising broker tree that is reconfigured without loss, with three tables.

Not to be confused with `core/overlay/exchange/advanced_coordinated.py`, whose colours mark events on one cycle.
"""
