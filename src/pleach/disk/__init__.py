"""Databases on disk whose damage is found before anything is served, for brokers and clients alike.

May import core.
"""
