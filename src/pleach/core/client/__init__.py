"""The client as a pure machine, which the client library and the simulator drive; also inside hosted components.

Imports links/ and what is below: overlay/, routing/, messages/, events/.
"""
