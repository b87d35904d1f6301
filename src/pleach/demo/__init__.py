"""The demo: brokers in three zones as real processes, clients under load, reconfigurations, and an audit.

Behind `pleach demo`. Imports harness/, operate/, scenario/, trace/ and core/.
"""
