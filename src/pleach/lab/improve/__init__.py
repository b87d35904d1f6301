"""S1 chapter 5 by flows: trees that improve themselves, over long times, on networks of a hundred brokers."""
