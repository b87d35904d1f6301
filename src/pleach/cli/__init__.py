"""The command line: one module per command of `pleach`; a command parses, builds a configuration, calls, and prints.

main.py is the entry, and loads a command when it is called. Imports every other room.
"""
