"""The analytical model of S1 §3.5: the cost of filtering compared with flooding, computed without a simulation.

Behind `pleach model`. Imports errors.py only.
"""
