"""What must hold of the members of a broker in every state, whatever the timing; a judge reads what was seen only.

I1: commits are confirmed in one history: of any two confirmed contents one is the beginning of the other; and only the
    primary of a view confirms in it.
I2: every copy of the newest view that was chosen has all that was ever confirmed. So nothing is lost as long as one
    copy of each view lives until its successor is chosen.
I3: registers only rise, a view is installed only if a majority of its predecessor has accepted it, and each view has
    one successor.
I4: whoever begins to serve has all that was ever confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.standby.views import Ballot, Machine, Register, View
from pleach.explore.standby_host import Confirmed, Content, SavedRegister, Seen

Vote: TypeAlias = tuple[int, Ballot, bytes, Machine]  # in which view, for which, by whom


class Past(NamedTuple):
    """What has happened, as far as later states are judged by it."""

    confirmed: Content
    chosen: tuple[tuple[int, bytes], ...]  # views by number
    accepted: frozenset[Vote]  # in views whose successor is not chosen yet

    @property
    def newest(self) -> View:
        """The newest view that was chosen."""
        return msgspec.msgpack.decode(self.chosen[-1][1], type=View)


class BrokenInvariantError(Exception):
    """An invariant does not hold: which one, and why."""


def first_past(view: View, content: Content) -> Past:
    return Past(content, ((view.number, msgspec.msgpack.encode(view)),), frozenset())


def past_after(past: Past, seen: Iterable[Seen], machine: Machine) -> Past:
    """Raises BrokenInvariantError."""
    for each in seen:
        past = _after_confirmation(past, each) if isinstance(each, Confirmed) else _after_save(past, each, machine)
    return past


def loss(past: Past, machine: Machine, store: Content | None) -> str:
    """I2, for a copy of the newest view: what is wrong with it, or ""."""
    if (store or ())[: len(past.confirmed)] == past.confirmed:
        return ""
    return f"I2: {machine} is a copy of view {past.newest.number} and lacks what was confirmed"


def _after_confirmation(past: Past, seen: Confirmed) -> Past:
    """I1 and I4."""
    ours, theirs = seen.content, past.confirmed
    shorter = min(len(ours), len(theirs))
    if seen.machine != seen.view.primary:
        raise BrokenInvariantError(f"I1: {seen.machine} confirms in view {seen.view.number}, and is not its primary")
    if ours[:shorter] != theirs[:shorter]:
        raise BrokenInvariantError(f"I1: {seen.machine} confirms {_told(ours)} after {_told(theirs)}")
    if seen.is_all and len(ours) < len(theirs):
        raise BrokenInvariantError(f"I4: {seen.machine} serves with {_told(ours)} after {_told(theirs)}")
    return past._replace(confirmed=max(ours, theirs, key=len))


def _after_save(past: Past, seen: SavedRegister, machine: Machine) -> Past:
    """I3."""
    before, after = seen.before, seen.after
    _check_rising(machine, before, after)
    past = _after_installation(past, machine, after.view)
    if after.accepted is None or (before is not None and after.accepted == before.accepted):
        return past
    number, (ballot, successor) = after.view.number, after.accepted
    if machine not in after.view.members:
        raise BrokenInvariantError(f"I3: {machine} votes in view {number}, and is no member")
    accepted = past.accepted | {(number, ballot, msgspec.msgpack.encode(successor), machine)}
    votes = [each for each in accepted if each[:2] == (number, ballot)]
    if len({view for _, _, view, _ in votes}) > 1:
        raise BrokenInvariantError(f"I3: two views are proposed by one ballot in view {number}")
    past = past._replace(accepted=accepted)
    return _after_choice(past, number, votes[0][2]) if len(votes) >= after.view.majority else past


def _check_rising(machine: Machine, before: Register | None, after: Register) -> None:
    if before is None:
        return
    if (after.view.number, after.promised) < (before.view.number, before.promised):
        raise BrokenInvariantError(f"I3: the register of {machine} falls")
    is_same_view = before.view.number == after.view.number
    had, has = before.accepted, after.accepted
    if is_same_view and had is not None and (has is None or has.ballot < had.ballot):
        raise BrokenInvariantError(f"I3: {machine} takes back what it has accepted")


def _after_installation(past: Past, machine: Machine, view: View) -> Past:
    chosen = dict(past.chosen)
    known = chosen.get(view.number)
    if known is None and not view.is_decreed:
        raise BrokenInvariantError(f"I3: {machine} installs view {view.number}, which was not chosen")
    if known is not None and known != msgspec.msgpack.encode(view):
        raise BrokenInvariantError(f"I3: there are two views of number {view.number}")
    if known is not None:
        return past
    chosen[view.number] = msgspec.msgpack.encode(view)
    return past._replace(chosen=tuple(sorted(chosen.items())))


def _after_choice(past: Past, number: int, view: bytes) -> Past:
    """A majority has accepted the successor of a view."""
    chosen = dict(past.chosen)
    if chosen.setdefault(number + 1, view) != view:
        raise BrokenInvariantError(f"I3: view {number} has two successors")
    newest = max(chosen)
    undecided = frozenset(each for each in past.accepted if each[0] + 1 >= newest)
    return Past(past.confirmed, tuple(sorted(chosen.items())), undecided)


def _told(content: Content) -> str:
    return " ".join(each.what for each in content) or "nothing"
