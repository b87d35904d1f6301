"""What tests share, by area; nothing here is collected as a test.

thorough.py        PLEACH_THOROUGH, the factor on seeds and examples
python_process.py  programs of this package in processes of their own
long_runs/         the areas of `tests/long_run.py`; seeds.py runs and sums up seeds, output.py has the replay command

events/  links/  routing/  ring/  optimise/  hosting/   random inputs and small worlds for one part of the core
contract/          random networks for every policy and mode (networks.py), and what must hold of a run (judgement.py)
overlay/           trees that change (changing_trees.py), brokers that lose their memory (memory_loss.py), crashes
                   at chosen messages (faults_at_messages.py), and what must hold of a run (judgement.py); exchange/ and
                   coloured/ have the same for their protocols
stabilise/         networks whose state is damaged          mobility/   clients that move
explore/  sim/  trace/  lab/  papers/                       small scenarios, traces written by hand, planted errors
live/              broker processes (broker_process.py, fleet.py), daemons in one loop (daemons.py), a broker in one
                   file (tiny_broker.py), a node with a clock that the test turns (timed_node.py); *_rounds.py and
                   others are what long runs do for minutes, and tests for seconds
spark/  web/  demo/  docs/                                  traces with errors, a browser, code blocks of pages
"""
