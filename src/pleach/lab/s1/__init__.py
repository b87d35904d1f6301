"""S1: chapters 3 (filtering), 4 (exchanging a link) and 5 (improving the tree).

One package per chapter. Imports sim/, scenario/, trace/, model/, core/, and lab/ itself.
"""
