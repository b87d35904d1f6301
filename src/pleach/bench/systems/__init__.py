"""The systems that `pleach bench forward` measures, Pleach among them: servers, publishers and subscribers of each.

Imports client/, harness/ and net/ for Pleach, the client libraries of the others for them.
"""
