"""The demo: brokers in three zones as real processes, clients under load, reconfigurations, and an audit."""
