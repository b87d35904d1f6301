"""Schedules that break without one rule, and not with it: those that a search finds only by luck."""

import pytest

from pleach.core.standby.messages import Accepted, Append, Appended, Here, Prepare, Promise, Propose, ViewInstalled
from pleach.explore.standby_host import HostRules, WholeFill
from pleach.explore.standby_invariants import BrokenInvariantError
from pleach.explore.standby_plants import STANDBY_PLANTS
from pleach.explore.standby_world import Bounds, Budget, StandbySetting, StandbyWorld

PLENTY = Budget(publications=9, ticks=9, seeks=9, answers=9, breaks=9, crashes=9)


class Script:
    """A world, and the moves that a schedule names."""

    def __init__(self, rules, copies="ps", witnesses="w"):
        bounds = Bounds(view=9, ballot=9, queue=20)
        self.world = StandbyWorld(
            StandbySetting(
                tuple(copies), tuple(witnesses), wanted=len(copies), budget=PLENTY, bounds=bounds, rules=rules
            )
        )
        self.state = self.world.start

    def __getitem__(self, machine):
        return self.world.host(self.state, machine)

    def do(self, what, machine, other="", until=lambda host: True):
        """`until`: which of the outcomes, by the host afterwards."""
        places = self.world.machines
        for move in self.world.moves(self.state):
            is_it = (move.what, places[move.place]) == (what, machine)
            if is_it and (not other or places[move.other] == other):
                for end in self.world.ends(self.state, move):
                    if until(self.world.host(end, machine)):
                        self.state = end
                        return self
        raise AssertionError(f"{machine} cannot {what}")

    def carry(self, sender, receiver, kind):
        """Deliver until a message of this kind was."""
        while True:
            first = self.world.queue(self.state, sender, receiver)[0]
            self.do("deliver", receiver, sender)
            if isinstance(first, kind):
                return self

    def lose(self, sender, receiver):
        """The connection breaks."""
        while self.world.queue(self.state, sender, receiver):
            self.do("break", sender, receiver)
        return self

    def store(self, sender, receiver, kind=Append):
        return self.carry(sender, receiver, kind).do("write", receiver)

    def choose(self, proposer, *voters):
        """A view is chosen by these, and installed at all of them."""
        for kind, answer in ((Prepare, Promise), (Propose, Accepted)):
            for voter in voters:
                self.carry(proposer, voter, kind)
            for voter in voters:
                self.carry(voter, proposer, answer)
        for voter in voters:
            self.carry(proposer, voter, ViewInstalled)
        return self


def with_and_without(plant):
    return pytest.mark.parametrize(
        ("rules", "breaks"),
        [pytest.param(HostRules(), False, id="as it is"), pytest.param(STANDBY_PLANTS[plant], True, id=plant)],
    )


def check(breaks, last):
    if breaks:
        with pytest.raises(BrokenInvariantError, match="I2"):
            last()
    else:
        last()


@with_and_without("fill-by-anyone")
def test_a_deposed_primary_fills_a_copy_of_a_newer_view(rules, breaks):
    """Rule 6: the fill began in view 1, and ends after the copy has acknowledged what view 3 confirmed."""
    script = Script(rules)
    script.do("tick", "p", until=lambda p: p.member.leadership.learners == ["w"])
    script.do("answer", "w").carry("w", "p", Here)  # p sends a fill, which takes long
    script.do("seek", "s").choose("s", "w").do("lead", "s").carry("w", "s", Here)
    script.do("tick", "s", until=lambda s: s.member.leadership.learners == ["w"])
    script.do("answer", "w").carry("w", "s", Here).store("s", "w", WholeFill).carry("w", "s", Appended)
    script.do("tick", "s", until=lambda s: s.is_changing).choose("s", "w").carry("w", "s", Here)
    script.do("publish", "s").store("s", "w").carry("w", "s", Appended).do("write", "s")
    assert script["s"].member.leadership.confirmed == 2
    assert script.world.past(script.state).newest.copies == ("s", "w")

    def the_fill_ends():
        script.carry("p", "w", WholeFill)
        if script["w"].writing:
            script.do("write", "w")

    check(breaks, the_fill_ends)


@with_and_without("acknowledge-in-an-old-view")
def test_a_copy_acknowledges_to_the_primary_of_an_older_view(rules, breaks):
    """Rule 2: t had it and lost it again to the primary of view 2; s takes it when t is the primary of view 3."""
    script = Script(rules, "pst", "vw")
    script.do("publish", "p").do("write", "p").store("p", "t").carry("t", "p", Appended)
    script.do("seek", "s").choose("s", "v", "w").do("lead", "s")
    script.carry("s", "t", ViewInstalled).carry("t", "s", Here).store("s", "t", WholeFill)
    assert len(script["t"].store) == 1
    script.do("seek", "t").choose("t", "v", "w").carry("t", "s", ViewInstalled)
    assert script["s"].member.number == 3
    script.lose("s", "p")  # p has heard of neither view

    def p_confirms():
        script.carry("p", "s", Append)
        if script["s"].writing:
            script.do("write", "s").carry("s", "p", Appended)

    check(breaks, p_confirms)
