"""The door of a broker process: who a connection is, what its rights and quotas are, and what operators did.

Decisions are those of `access/`; here they are asked for when a client logs in, when the access file changes, and when
a client arrives from elsewhere.
"""
