"""A broker tree that finds back by itself, and is reconfigured without loss: three colours, three trees, three tables.

Not to be confused with `core/overlay/exchange/colours.py`: the colours there are marks of events on one cycle.
"""
