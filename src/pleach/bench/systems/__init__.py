"""The systems that `pleach bench forward` measures, Pleach among them: servers, publishers and subscribers of each."""
