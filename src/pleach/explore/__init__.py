"""The explorer: a search through every interleaving of a small scenario.

layout.py          the layout of a state, and the numbers of moves
transitions.py     the effect of each move on one machine, computed once
client_history.py  what clients have observed, as far as the oracle can tell two histories apart
world.py           states as tuples of small numbers, and the state that each move leads to
search.py          depth-first search: counts, the invariants of quiet states, and the shortest path to a failure
counterexample.py  a sequence of moves as a schedule and as the records of a run

The members of one broker (core/standby/) have a world of their own, with an adversary in place of a scenario:

standby_host.py        a machine in small: a disk, and the duties of a driver
standby_invariants.py  what must hold, whatever the timing
standby_world.py       states, and what the adversary may do
standby_reactions.py   what each machine does, computed once
standby_search.py      breadth-first search, and long random schedules
standby_network.py     the same machines in virtual time: whether a primary serves again
standby_plants.py      bugs that must be found

Imports scenario/, trace/ and core/.
"""
