"""Simulation of S1 chapter 5 by flows: self-improving trees of a hundred brokers over long times.

Imports core/optimise/ and numpy; lab/s1/chapter5/ has the experiments.
"""
