"""What a fault makes of state and of messages: pure rules, with chance given, for every world that strikes."""
