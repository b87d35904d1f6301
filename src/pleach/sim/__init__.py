"""The simulator: brokers and clients of the core in virtual time, seeded, with latency and faults."""
