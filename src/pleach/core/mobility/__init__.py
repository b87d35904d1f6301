"""Movement of clients from one broker to another: as a transaction (S4), or by themselves, for comparisons.

Imports overlay/ (seam, context), routing/ and messages/.
"""
