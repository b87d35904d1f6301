"""The pure core: brokers, clients, links and protocols as state machines.

Nothing in it reads a clock, opens a socket or draws a random number; drivers do (sim/, explore/, server/, client/).
Imports only errors.py, inwards in the order of the second import contract.
"""
