"""The client library that applications import; `pleach.connect` is its entry.

client.py is the asynchronous client, blocking.py the same for scripts without asyncio. reader.py and publish_once.py
serve work that processes share and may repeat, such as Spark's. Imports core/, net/ and trace/ only.
"""
