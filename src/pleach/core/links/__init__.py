"""Reliable FIFO links over unreliable connections, as pure state machines."""
