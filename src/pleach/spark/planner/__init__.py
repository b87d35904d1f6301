"""A cheap tree for the traffic that traces tell of, and the way to it: `pleach overlay plan --from LAKE`.

    records ──flows.py──▶ flows ──┐
    outlines, operations ──────▶ tree ──┼──starts.py──▶ trees, over executors ──job.py──▶ exchanges in order
    prices ────────────────────▶ costs ─┘

Read `job.py` first. The search itself knows nothing of Spark: `pleach.core.optimise.search`.
"""
