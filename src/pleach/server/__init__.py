"""A broker process: daemon, node, links, features; beside them storage/, door/, http/, ring/ and standby/.

It drives the pure machines of core/ with sockets, timers and a disk. May import core, faults, net and operate.
"""
