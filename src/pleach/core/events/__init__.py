"""Events and filters: what is published, what is wanted, and the algebra between filters."""
