"""The dashboard: the tree of brokers in a browser, live, simulated, or replayed from a trace.

    Source ── look ──▶ Picture ── Board ──▶ one whole, then merge patches ──▶ page/*.js
      ▲                                                                          │
      └── carry_out ◀── Desk: a plan is drafted, shown, and confirmed by its name ┘

`site.py` is the door: what may be asked over HTTP, and by whom. There is no build step: page/ is what the browser gets.
"""
