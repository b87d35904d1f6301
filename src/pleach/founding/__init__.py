"""Founding: the files of a new network, a directory for each broker, and a page of the commands that run it.

It knows settings by their spelling in a file only, and imports `access`, addresses of `net`, the longest name that a
broker takes, and `errors`.
"""
