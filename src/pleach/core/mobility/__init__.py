"""Movement of clients from one broker to another: as a transaction (S4), or by themselves, for comparisons."""
