"""Protocols that exchange one link of the tree for another (S1 §4.4, S2): one file each, behind one contract."""
