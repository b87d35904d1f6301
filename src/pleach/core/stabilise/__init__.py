"""Routing that finds back by itself from whatever a fault has made of its tables."""
