"""Every message between clients and brokers, and between brokers; one module per area, all names importable from here.

    client ── Attach, Publish, Subscribe, … ──▶ broker ── Forward, Install, Withdraw ──▶ broker
    client ◀── Attached, Published, Deliver, … ─ broker ◀── Installed ─────────────────── broker

A message is a frozen value. On the wire it is a MessagePack array of its type's tag (base.py) and its fields; a filter
travels as its canonical text. There is one codec (codec.py): the simulator counts the bytes that a socket would carry.
May import: core/events, core/access, errors.

Imports access/, events/.
"""

# ruff: noqa: F403 - a list of all names would only repeat the modules; a test asserts that no two define the same one

from __future__ import annotations

from pleach.core.messages.access import *
from pleach.core.messages.base import *
from pleach.core.messages.clients import *
from pleach.core.messages.codec import *
from pleach.core.messages.coloured import *
from pleach.core.messages.council import *
from pleach.core.messages.exchange import *
from pleach.core.messages.hosting import *
from pleach.core.messages.kinds import *
from pleach.core.messages.locations import *
from pleach.core.messages.membership import *
from pleach.core.messages.movement import *
from pleach.core.messages.rebuild import *
from pleach.core.messages.requests import *
from pleach.core.messages.ring import *
from pleach.core.messages.routing import *
from pleach.core.messages.swaplink import *
