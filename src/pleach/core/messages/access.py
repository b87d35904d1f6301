"""Messages about rights (core/access). They come from a broker's own driver, never from a peer or a client."""

from __future__ import annotations

from typing import TypeAlias

from pleach.core.access.rights import Rights
from pleach.core.messages.base import Message, Node


class Permit(Message, frozen=True, tag=56):
    """Who a client is, and what it may do from now on. It may come ahead of the client's `Attach`.

    `client` empty: the rights of clients for which no `Permit` has come.
    """

    client: Node
    principal: str
    rights: Rights


AccessMessage: TypeAlias = Permit
