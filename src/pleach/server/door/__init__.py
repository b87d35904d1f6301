"""The door of a broker process: who a connection is, what its rights and quotas are, and what operators did.

admission.py      connections, by their Hello           gate.py            messages, before the broker handles them
broker_names.py   brokers' names win over clients'      reader_tokens.py   who may read for a client

Decisions on rights are those of `access/`; here they are asked for when a client logs in, when the access file changes,
and when a client arrives from elsewhere. Imports access/, core/, net/, and the parts of a broker process.
"""
