"""S4 §5: client movement.

Imports sim/, scenario/, trace/ and core/.
"""
