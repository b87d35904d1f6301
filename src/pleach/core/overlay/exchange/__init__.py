"""Protocols that exchange one link of the tree for another (S1 §4.4, S2): one file each, behind one contract.

machine.py does what all have in common, contract.py is what each has to provide. Imports seam.py and context.py.
"""
