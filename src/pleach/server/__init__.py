"""A broker process: daemon, node, links, committer, store, features; beside them door/, http/, ring/ and standby/.

It drives the pure machines of core/ with sockets, timers and a disk. May import core, faults, net and operate.
"""
