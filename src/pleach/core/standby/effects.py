"""Effects of a member; the driver performs them in order.

- `SaveRegister` is on disk before anything behind it is done.
- `ToMember` may be lost, and is not sent again; what was sent to a machine arrives in order or not at all. Where
  something of it may not arrive the driver calls `lost_touch`.
- `StoreRecord`: apply a record to a replica that is at `previous`; call `stored` when it is on disk. One that the
  replica has already (same run, number not above its own) is passed over: call `stored` with what it has. A replica
  that is elsewhere does not take it: call `lost_track`.
- `CatchUp`: bring a machine up from this position: by records if all since are at hand, else by a fill. Then it gets
  every record, as long as it is in `leadership.following`. A fill is taken where `takes_fill_of` says so, when it
  begins and before it ends; until then what the machine had stays as it was, and is what it answers for.
- `Confirm`: commits up to this number are at every copy: carry out what they made.
- `Serve`: all copies have what this primary had when it began to lead. Before, nothing of that may leave the broker: it
  may be nowhere else. Said once for each time that it leads. Clients wait for `View.may_have_clients`, too.
- `Promote`: finish or drop what is being stored, start the broker from the replica, then call `lead`; go on ticking
  meanwhile. `Depose`: stop it; its store is a replica now, at whatever it has written.
- `Discard`: this machine is no member any more; its replica is not needed. The register stays, as long as the member
  has one: it is gone if the broker has left for good.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pleach.core.standby.messages import StandbyMessage
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, Register, View


class ToMember(NamedTuple):
    to: Machine
    message: StandbyMessage


class SaveRegister(NamedTuple):
    register: Register


class StoreRecord(NamedTuple):
    previous: Position
    position: Position
    record: bytes


class CatchUp(NamedTuple):
    machine: Machine
    position: Position | None  # None: it has nothing


class Confirm(NamedTuple):
    number: int


class Serve(NamedTuple):
    view: View


class Promote(NamedTuple):
    view: View


class Depose(NamedTuple):
    view: View


class Discard(NamedTuple):
    pass


MemberEffect: TypeAlias = ToMember | SaveRegister | StoreRecord | CatchUp | Confirm | Serve | Promote | Depose | Discard
