"""S2 §5: the reconfiguration path.

Imports sim/, scenario/, trace/ and core/.
"""
