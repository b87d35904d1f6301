"""The explorer: a search through every interleaving of a small scenario.

layout.py          the layout of a state, and the numbers of moves
transitions.py     the effect of each move on one machine, computed once
client_history.py  what clients have observed, as far as the oracle can tell two histories apart
world.py           states as tuples of small numbers, and the state that each move leads to
search.py          depth-first search: counts, the invariants of quiet states, and the shortest path to a failure
counterexample.py  a sequence of moves as a schedule and as the records of a run

Imports scenario/, trace/ and core/.
"""
