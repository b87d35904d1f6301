"""Optimisation of the broker tree (S1 chapter 5): its cost, the search for a cheaper one, and when to stop.

Among brokers: `council.py`, `motions.py`, `heuristics.py`, `ledger.py`, `settling.py`; `traffic_log.py` records.
With global knowledge (planner, improvement loop): `sightings.py`, `search.py`, `gains.py`, `replacement.py`,
`exchange_order.py`, `improvement.py`. Both: `cost.py`, `prices.py`, `distances.py`.

Imports overlay/plans/, messages/ and events/.
"""
