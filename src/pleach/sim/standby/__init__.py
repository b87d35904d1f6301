"""Standbys in the simulator: machines with disks, members of views on them, and brokers that come back elsewhere.

It drives the pure members of core/standby as the processes of server/standby do, over a network of machines that can be
cut and destroyed. It imports the simulator, scenarios and the core; a run without standbys does not come by here.
"""
