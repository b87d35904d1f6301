"""Content-based routing of one broker: entries by direction, exports to neighbours, and its clients' requests.

router.py is its interface. Imports events/, messages/, effects.py, and nothing of overlay/: routing does not know that
the tree is changing.
"""
