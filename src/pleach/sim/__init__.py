"""The simulator: the same brokers and clients in virtual time, seeded, with latency and faults."""
