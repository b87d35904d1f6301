"""A client of the library that ends as in a crash: without a goodbye."""

from pleach.errors import StoreError
from support.live.tiny_broker import until


async def abandon(client):
    """What a kill leaves: the connection gone, nothing said, nothing written."""
    connections = client._driver._connections
    await connections.cancel_tasks()
    client._driver._error = StoreError("killed by the test")  # nothing settles from here on
    for connection in connections.all:
        connection._is_over = True
        if connection._connection is not None:
            connection._connection.abort("killed")
    client._driver._cursor.close()
    await until(lambda: not any(connection.is_connected for connection in connections.all))
