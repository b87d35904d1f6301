"""Healing: a stand-in replaces a dead broker, from what its neighbours and clients know (docs/protocols/healing.md).

Imports seam.py and context.py; drivers say who is dead.
"""
