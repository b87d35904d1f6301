"""S2 §5: the reconfiguration path."""
