"""Components: clients that run inside a broker and move with their state (docs/how-to/components.md)."""
