"""The profile: what a broker of a ring has besides, so that its tree looks after itself.

Rule 1: a broker with `[ring]` has the profile, whichever source says so; a broker whose neighbours are named has not.
Rule 2: every other source wins over it, key by key. A table is taken out as a whole: `standby = false`.
Rule 3: one of two moves links. With the council the ring says where newcomers enter; without it, its root makes the
        tree that of the ring.
Rule 4: a broker with a disk that is stopped comes back, and one in memory leaves for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pleach.server.standby.registers import folder_name


class Part(StrEnum):
    """What is taken out by its name."""

    DATA_DIR = "data-dir"
    STABILISE = "stabilise"
    STANDBY = "standby"
    IMPROVE = "improve"
    RELAY = "relay"

    @property
    def setting(self) -> str:
        return self.replace("-", "_")

    @property
    def nothing(self) -> str | bool:
        """The value of the setting where the part is taken out."""
        return "" if self is Part.DATA_DIR else False


NO_TABLE: Final = MappingProxyType[str, Any]({})


@dataclass(frozen=True, slots=True)
class Profile:
    """Tables of settings, and where data directories are: each is in effect unless it is taken out."""

    data_dir: str  # in the working directory; a folder of the broker's name in it
    stabilise: Mapping[str, Any]
    standby: Mapping[str, Any]
    improve: Mapping[str, Any]
    relay: Mapping[str, Any]

    def of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a broker that was given these others."""
        if not isinstance(given.get("ring"), Mapping):
            return {}
        folder = str(Path(self.data_dir) / folder_name(str(given.get("name", ""))))
        has_disk = bool(given.get("data_dir", folder))
        has_council = given.get("improve") is not False
        return {
            "data_dir": folder,
            "stabilise": dict(self.stabilise),
            "standby": dict(self.standby),
            "improve": dict(self.improve),
            "relay": dict(self.relay),
            "ring": {"leave": not has_disk, "weave": not has_council},  # rules 3 and 4
        }


PROFILE: Final = Profile(
    data_dir="pleach-data",
    stabilise=MappingProxyType({"kind": "leases", "refresh": 5.0, "period": 15.0}),
    standby=MappingProxyType({"copies": 2}),
    improve=NO_TABLE,  # as the council has it
    relay=NO_TABLE,
)
OPTIONAL_TABLES: Final = tuple(part.setting for part in Part if part.nothing is False)  # `false`: there is none
