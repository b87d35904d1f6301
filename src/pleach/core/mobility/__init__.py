"""Clients that move from one broker to another: as a transaction (S4), or by themselves, for the comparison."""
