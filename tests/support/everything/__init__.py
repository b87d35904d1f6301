"""Random scenarios with all features of the simulator at once: drawn by a seed, judged, shrunken, written as files."""
