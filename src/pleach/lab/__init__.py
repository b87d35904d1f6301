"""The lab: experiments that reproduce figures of the papers, and some of our own.

experiment.py has their interface, registry.py lists them, campaigns.py runs them on Spark, report.py draws and judges.
s0/ … s4/ have one package per paper, exchanges/ and beyond/ comparisons of our own, improve/ the setting of S1 §5.6.
The lab may import all rooms but `bench`, `demo` and `cli`.
"""
