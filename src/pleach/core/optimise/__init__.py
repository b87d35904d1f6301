"""A tree that improves itself (S1 chapter 5): what a tree costs, how brokers find a cheaper one, and when they stop.

Read `cost.py` first, then `indirect.py` and `heuristics.py` (what is exchanged), `ledger.py` (what an exchange saves,
exactly), `settling.py` (when it is worth it), `agent.py` (the messages around it). `looking.py` and `sample.py` tune
its parameters while it runs, in `tuned_agent.py`. `reference.py` has what needs to know everything; so does the
planner's part: `gains.py` and `search.py` look for a cheap tree, from `starts.py`, `journey.py` leads there, by
`prices.py`.
"""
