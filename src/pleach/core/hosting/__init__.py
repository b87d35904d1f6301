"""Components: clients that live in a broker, and move with their state (docs/how-to/components.md)."""
