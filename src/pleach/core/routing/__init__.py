"""Routing: who wants what in which direction, and what each neighbour has to be told of it."""
