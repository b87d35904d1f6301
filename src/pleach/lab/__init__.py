"""Experiments: one file per group of figures in the papers."""
