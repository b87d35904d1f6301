"""Standbys in the simulator: machines with disks, members of views on them, and brokers that come back elsewhere."""
