"""Areas of `tests/long_run.py`.

Each module has `add_options(parser)` and `run(options)`, which returns the exit code. Areas that judge seeds share
`seeds.py`; the others run real processes, and get a directory as `options.place`.
"""
