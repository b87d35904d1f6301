"""The command line: commands parse, build a configuration, call, and print."""
