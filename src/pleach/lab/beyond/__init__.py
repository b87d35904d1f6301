"""Measurements that the papers do not have."""
