"""The dashboard: the tree of brokers in a browser, live, simulated, or replayed from a trace.

    Source ── snapshot ──▶ Snapshot ── SnapshotStream ──▶ one whole, then merge patches ──▶ page/*.js
      ▲                                                                                        │
      └── carry_out ◀── PlanRuns: a plan is drafted, shown, and confirmed by its name ◀────────┘

`site.py` has the HTTP interface. There is no build step: browsers get page/ as it is.
Imports operate/, server/http and everything below.
"""
