"""S4 §5: client movement."""
