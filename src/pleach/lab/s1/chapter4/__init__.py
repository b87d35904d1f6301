"""S1 §4.4: advanced coordinated reconfiguration against the strawman.

Imports sim/, scenario/ and core/.
"""
