"""Stand-ins for brokers that are dead for good: who starts them, where they run, and what neighbours know for it.

May import core, net, operate, and the parts of a broker process beside it.
"""
