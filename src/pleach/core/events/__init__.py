"""Events, filters, the filter language, relations between filters (covers, overlaps), and the matching index."""
