"""The soak: real brokers with everything on, for hours, and a monkey that does to them what happens in months.

settings.py   what is set, and the network of it
actions.py    what may happen to a network, as data, and in the language of scenarios
monkey.py     … which of it happens next: from a seed, without a clock
actors.py     … and how it is done to real processes
load.py       what clients publish
sums.py       components, and whether they sum up what was published
watch.py      memory, files and disk, and whether they grow
latency.py    how long events take
log.py        all that happened, as JSON lines; replay.py repeats it, export.py tells it as a scenario
run.py        one soak, from the first process to the verdict
report.py     the report, from the log alone; charts.py draws

The judge is the oracle in bounded memory (trace/online.py). Imports harness/ and whatever that may import.
"""
