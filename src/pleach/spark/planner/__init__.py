"""The planner: a cheap tree for the traffic of traces, and a plan to reach it (`pleach overlay plan --from LAKE`).

    records ───────────────────▶ flows ─┐
    outlines, operations ──────▶ tree ──┼──job.py──▶ trees, over executors ──▶ the best, with a plan
    prices ────────────────────▶ costs ─┘

The search itself knows nothing of Spark: `pleach.core.optimise.search`.
"""
