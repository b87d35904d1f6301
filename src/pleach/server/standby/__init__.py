"""Standbys of brokers: machines that hold replicas of data directories, and run brokers that were promoted there.

Beneath core/standby/, whose members decide; here are their disk, their connections, and their processes.
"""
