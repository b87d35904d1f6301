"""Measurements that the papers do not have.

Imports the rooms that lab/ may import, and lab/ itself.
"""
