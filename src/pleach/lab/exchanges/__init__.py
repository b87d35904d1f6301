"""One exchange of a link under load, for every protocol: the measured Table I, and SwapLink against the cycle.

Imports sim/, scenario/, trace/, core/, and lab/ itself.
"""
