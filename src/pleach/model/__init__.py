"""The analytical model: what filtering costs and saves against flooding, without running anything (S1 §3.5)."""
