"""The systems that `pleach bench forward` measures, Pleach among them: how each is started, published to, read from."""
