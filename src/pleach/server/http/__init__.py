"""The admin port of a broker process: a small HTTP server, its pages, and the contents of status and metrics.

Imports the parts of a broker process beside it, operate/ for the types of requests, net/ and core/.
"""
