"""Pleach: content-based publish/subscribe whose broker tree re-weaves itself while events flow."""

__version__ = "0.1.0"
