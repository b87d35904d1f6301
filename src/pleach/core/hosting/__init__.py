"""Components: clients that run inside a broker and move with their state (docs/how-to/components.md).

Imports client/ and what is below it; broker.py puts it into a broker.
"""
