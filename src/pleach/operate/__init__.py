"""What operators do to running brokers over their admin ports: survey, apply plans, move clients, drain, improve.

`pleach overlay`, `client` and `component`, the dashboard and the harness are built on it; brokers that maintain their
tree by themselves use it, too. Imports net/, trace/ and core/.
"""
