"""S0 §VI: what the overlay primitives cost."""
