"""Every interleaving of a small scenario, one by one.

past.py        what the oracle can still tell apart of what happened before
world.py       states as small numbers, and what each move makes of a state
invariants.py  what must hold between brokers whenever all is quiet
search.py      depth first through all states; counts, and the shortest way to a failure
history.py     a row of moves as a schedule and as the records of a run
"""
