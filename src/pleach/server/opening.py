"""Opening the data directory of a broker process: its settings must be those that it was created with.

Leases may be added later: tables, sessions and journal are those of a broker without them, and a machine that is new to
a captured state is idle. They stay from then on, as the journal has inputs that only they take.
"""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from pleach.core.standby.views import View
from pleach.errors import SettingsError
from pleach.server.crash_hook import CrashHook, CrashingStore
from pleach.server.door.reader_tokens import new_secret
from pleach.server.settings import NO_KIND, BrokerSettings
from pleach.server.stabilise_settings import StabiliseKind
from pleach.server.standby.primary_seat import PrimarySeat
from pleach.server.standby.registers import RegisterFile, broker_folder, display
from pleach.server.storage.store import Store

LEASES_ADDED = "stabilise since"  # the key of a directory that was made without them

log = logging.getLogger(__name__)


class OpenedStore(NamedTuple):
    store: Store | None  # None: in memory only
    epoch: int
    view: View | None = None  # of a broker that had standbys, and has none any more: peers refuse older ones


def open_store(settings: BrokerSettings, seat: PrimarySeat | None = None) -> OpenedStore:
    """The store, if there is a data directory, and the epoch: without one, each start is a new epoch.

    `seat`: of a broker that has copies: it is told of all that is written.
    """
    epoch = time.time_ns()
    if not settings.data_dir:
        return OpenedStore(None, epoch)
    view = _former_view(settings) if seat is None else None
    crash_hook = CrashHook.of(settings.name)
    kind = Store if crash_hook is None else CrashingStore
    store = kind.open(settings.data_dir, settings.name, epoch=epoch, bytes_max=settings.limits.data_bytes or None)
    if crash_hook is not None and isinstance(store, CrashingStore):
        store.crash_hook = crash_hook
    if seat is not None:
        seat.opened(store)
    try:
        _check_settings(store, settings)
    except SettingsError:
        store.close()
        raise
    return OpenedStore(store, store.epoch, view)


def _check_settings(store: Store, settings: BrokerSettings) -> None:
    """Raises SettingsError where the directory cannot be read with these settings; adds leases where they are new."""
    lasting, known = settings.lasting, store.made_with({**settings.lasting, **new_secret()})
    values = {**known, "stabilise": known.get(LEASES_ADDED, known["stabilise"])}
    adds_leases = (values["stabilise"], lasting["stabilise"]) == (NO_KIND, StabiliseKind.LEASES)
    for key, value in values.items():
        if lasting.get(key, value) != value and not (key == "stabilise" and adds_leases):
            remedy = f"set it to that, or move {settings.data_dir} away: the broker then starts without memory"
            raise SettingsError(key, f"{lasting[key]} is wanted, but the data directory was made with {value}", remedy)
    if adds_leases:
        log.info("the data directory was made without [stabilise]: from here on its entries have leases")
        store.made_with({LEASES_ADDED: StabiliseKind.LEASES.value})


def _former_view(settings: BrokerSettings) -> View | None:
    """Raises SettingsError where others could run this broker: it would confirm what they do not have."""
    folder = broker_folder(settings.data_dir, settings.name)
    register = RegisterFile(folder).load()
    if register is None or len(register.view.members) == 1:
        return register.view if register is not None else None
    members = ", ".join(map(display, register.view.members))
    remedy = f"give it again (--copies 2), or delete {folder} once no other machine has a copy"
    raise SettingsError("standby", f"it is missing, and {settings.name} has copies or votes at {members}", remedy)
