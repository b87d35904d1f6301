"""S1 §3.3.3 and §3.5: filtering with leases against flooding.

Imports sim/, scenario/, model/ and core/.
"""
