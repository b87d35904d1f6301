"""The lab: experiments that reproduce figures of the papers, and some of our own.

experiment.py   the interface: cases, seeds, a pure measurement, figures with findings; registry.py lists all of them
campaigns.py    runs on Spark; report.py, rejudge.py, figure_style.py, axis_scales.py, findings.py, trends.py: reports
s0/ … s4/       one package per paper (S1 by chapter); improve/: the setting of S1 §5.6
exchanges/, beyond/   comparisons of our own
rounds.py, waxman.py   shared parts of measurements

May import: all rooms below `bench | lab | demo`.
"""
