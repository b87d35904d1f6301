"""The data directory of a broker process, opened: what it was made with is what it goes on with."""

from __future__ import annotations

import os
import time

from pleach.errors import SettingsError
from pleach.server.crash_hook import CrashHook, CrashingStore
from pleach.server.settings import BrokerSettings
from pleach.server.store import Store


def open_store(settings: BrokerSettings) -> tuple[Store | None, int]:
    """The disk, if there is one, and the epoch: a broker without memory starts a new life each time."""
    born = settings.stand_in.epoch if settings.stand_in else time.time_ns()
    if not settings.data_dir:
        return None, born
    crash_hook = CrashHook.foretold(os.environ)
    kind = Store if crash_hook is None else CrashingStore
    store = kind.open(settings.data_dir, settings.name, epoch=born, bytes_max=settings.limits.data_bytes or None)
    if crash_hook is not None and isinstance(store, CrashingStore):
        store.crash_hook = crash_hook
    if settings.stand_in is not None and store.epoch != settings.stand_in.epoch:
        store.close()
        raise SettingsError("stand_in.epoch", f"{settings.data_dir} is of another life", "give an empty directory")
    lasting = settings.lasting
    for key, value in store.made_with(lasting).items():
        if lasting.get(key, value) != value:
            store.close()
            remedy = f"set it to that, or move {settings.data_dir} away: the broker is then born anew"
            raise SettingsError(key, f"{lasting[key]} is wanted, but the data directory was made with {value}", remedy)
    return store, store.epoch
