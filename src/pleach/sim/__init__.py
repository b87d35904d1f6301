"""The simulator: brokers and clients of the core in virtual time, seeded, with latency and faults.

run.py runs a scenario, simulator.py has the clock and the links. Imports scenario/, trace/, faults/ and core/.
"""
