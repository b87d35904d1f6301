"""Scenarios on real processes: brokers as processes, a switch between them, clients of the client library.

The trace is that of the simulator, so that the same oracle judges it. Imports client/, operate/, scenario/, trace/, and
of server/ only its settings.
"""
