"""Events, filters, the filter language, relations between filters (covers, overlaps), and the matching index.

The ground of the core: imports nothing of it.
"""
