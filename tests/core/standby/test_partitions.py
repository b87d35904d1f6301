"""Members in virtual time, with cuts, pauses, full disks and deaths: who serves afterwards, how soon, and who stays.

Times are in `after`: one second. Invariants are checked at each step (explore/standby_invariants.py).
"""

import pytest

from pleach.core.standby.views import View
from pleach.explore.standby_network import StandbyNetwork

SOON = 5.0  # seconds within which something new is confirmed again


@pytest.fixture
def net():
    network = StandbyNetwork.begun()
    assert network.seconds_to_confirm("before", SOON)
    assert network.primary == "p"
    assert network.newest.number == 1
    return network


def both(a, b):
    return (a, b), (b, a)


def serves(network, what="after", within=SOON):
    took = network.seconds_to_confirm(what, within)
    assert took is not None, f"{network.newest}: {network.primary or 'nobody'} serves"
    return took


# Deaths ----------------------------------------------------------------------------------------------------------


def test_a_primary_that_is_destroyed_comes_back_at_its_standby(net):
    net.kill("p")
    assert serves(net, within=3.0)
    assert net.primary == "s"
    assert net.newest.copies == ("s", "w")


def test_a_standby_that_is_destroyed_is_replaced_and_the_primary_stays(net):
    net.kill("s")
    serves(net, within=3.0)
    assert net.primary == "p"
    assert net.newest.copies == ("p", "w")


def test_a_witness_that_is_destroyed_costs_nothing():
    net = StandbyNetwork.begun(fresh=("x",))
    net.kill("w")
    assert serves(net) <= 0.4
    net.run(5.0)
    assert net.primary == "p"
    assert net.newest.members == ("p", "s", "x")


def test_one_death_after_another_as_long_as_there_are_machines():
    net = StandbyNetwork.begun(fresh=("a", "b", "c"))
    for place in range(4):
        net.kill(net.primary)
        serves(net, f"after {place}")
        net.run(5.0)


def test_two_deaths_at_once_with_three_copies():
    for dead in ("ps", "pt", "st", "pv", "sw"):
        net = StandbyNetwork.begun("pst", "vw", wanted=3)
        for machine in dead:
            net.kill(machine)
        serves(net)
        assert net.primary == ("p" if "p" not in dead else "s" if "s" not in dead else "t")


# Cuts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.5, 1.2, 3.0, 10.0, 60.0])
@pytest.mark.parametrize("machine", "psw")
def test_a_machine_that_is_cut_off_for_a_while(net, machine, seconds):
    net.isolate(machine)
    net.run(seconds)
    if seconds >= SOON:
        serves(net, "meanwhile", within=0.5)
    net.heal()
    serves(net, within=3.0)
    net.run(5.0)
    assert net.primary == ("s" if machine == "p" and seconds > 1 else "p")
    assert len({host.member.number for host in net.hosts.values()}) == 1


def test_a_primary_that_its_standby_does_not_hear_stays_and_takes_another(net):
    net.cut(*both("p", "s"))
    serves(net)
    assert net.primary == "p"
    assert net.newest.copies == ("p", "w")
    net.heal()
    net.run(10.0)
    assert net.newest.primary == "p"


@pytest.mark.parametrize("way", [("p", "s"), ("s", "p")])
def test_one_direction_between_primary_and_standby(net, way):
    net.cut(way)
    serves(net, within=8.0)
    assert net.primary == "p"
    assert net.newest.copies == ("p", "w")


@pytest.mark.parametrize("way", [("p", "w"), ("w", "p"), ("s", "w"), ("w", "s")])
def test_one_direction_of_a_witness_costs_nothing(net, way):
    net.cut(way)
    for place in range(5):
        assert serves(net, f"e{place}") <= 0.4
        net.run(2.0)
    assert net.newest.number == 1


def test_a_primary_that_nobody_hears_gives_way(net):
    net.cut(("p", "s"), ("p", "w"))
    serves(net)
    assert net.primary == "s"
    assert not net.hosts["p"].is_serving
    net.heal()
    net.run(5.0)
    assert net.primary == "s"


def test_a_primary_that_hears_nobody_gives_way(net):
    net.cut(("s", "p"), ("w", "p"))
    serves(net)
    assert net.primary == "s"
    assert net.newest.copies == ("s", "w")
    net.heal()
    net.run(5.0)
    assert not net.hosts["p"].is_serving


def test_a_standby_that_nobody_can_replace_is_waited_for(net):
    net.name_candidates(["p", "s"])
    net.run(6.0)
    net.isolate("s")
    net.run(20.0)
    assert net.newest.number == 1
    net.publish("waits")
    net.run(5.0)
    assert net.hosts["p"].member.waits_for == ["s"]
    assert "waits" not in net.confirmed
    net.heal()
    net.run(1.0)
    assert "waits" in net.confirmed
    assert net.primary == "p"


@pytest.mark.parametrize("sides", ["ps|tvw", "pv|stw", "pst|vw", "pstv|w", "p|stvw"])
def test_halves(sides):
    net = StandbyNetwork.begun("pst", "vw", wanted=3)
    one, other = sides.split("|")
    net.cut(*(way for a in one for b in other for way in both(a, b)))
    serves(net)
    is_left = len(one) > len(other)
    assert net.primary == ("p" if is_left else next(each for each in "st" if each in other))
    net.heal()
    net.run(10.0)
    serves(net, "cured", within=1.0)
    assert len({host.member.number for host in net.hosts.values()}) == 1
    assert len(net.newest.copies) == 3


def test_a_link_that_comes_and_goes_deposes_nobody(net):
    for _ in range(20):
        net.cut(*both("p", "s"))
        net.run(0.6)
        net.heal()
        net.run(0.6)
    serves(net, within=1.0)
    assert net.newest.number == 1


def test_nobody_reaches_anybody_for_a_while(net):
    for machine in "psw":
        net.isolate(machine)
    net.run(30.0)
    assert net.hosts["p"].member.lacks_majority(net.now)
    assert net.hosts["s"].member.lacks_majority(net.now)
    net.heal()
    serves(net)


# Pauses ----------------------------------------------------------------------------------------------------------


def test_a_primary_that_was_stopped_for_a_minute_finds_itself_replaced(net):
    net.pause("p", 60.0)
    net.run(0.1)
    serves(net, "meanwhile")
    net.run(60.0)
    serves(net)
    assert net.primary == "s"
    assert not net.hosts["p"].is_serving


@pytest.mark.parametrize("is_deaf", [False, True])
@pytest.mark.parametrize("seconds", [0.9, 60.0])
@pytest.mark.parametrize("machines", ["s", "w", "sw", "psw"])
def test_those_that_were_stopped_depose_nobody(net, machines, seconds, is_deaf):
    """They have heard nobody for a minute, because they did not listen: a stopped process, or a machine suspended."""
    for machine in machines:
        net.pause(machine, seconds, is_deaf=is_deaf)
    net.run(seconds + 0.1)
    serves(net)
    assert net.primary == "p"


# Disks, starts ---------------------------------------------------------------------------------------------------


def test_a_standby_that_answers_and_stores_nothing_is_replaced(net):
    net.full.add("s")
    serves(net, within=6.0)
    assert net.primary == "p"
    assert net.newest.copies == ("p", "w")


def test_of_three_copies_one_that_stores_nothing_is_left_out():
    net = StandbyNetwork.begun("pst", "vw", wanted=3)
    net.name_candidates("pst")
    net.full.add("t")
    serves(net, within=6.0)
    assert net.newest.copies == ("p", "s")


def test_a_start_that_takes_long_is_waited_for(net):
    net.start_seconds = 6.0
    net.isolate("p")
    net.run(3.0)
    net.heal()
    serves(net, within=8.0)
    assert net.primary == "s"
    assert net.newest.primary == "s"


def test_a_copy_that_cannot_start_lets_another_one_try():
    net = StandbyNetwork.begun("pst", "vw", wanted=3)
    net.start_seconds = 1e9
    net.kill("p")
    net.run(2.0)
    assert net.newest.primary == "s"
    net.hosts["s"].member.cannot_lead()
    net.start_seconds = 0.3
    serves(net)
    assert net.primary == "t"


def test_a_primary_that_is_back_at_once_stays(net):
    net.restart("p")
    serves(net, within=1.0)
    assert net.primary == "p"
    assert net.newest.number == 1


@pytest.mark.parametrize("machine", "sw")
def test_a_member_that_restarts(net, machine):
    net.restart(machine)
    serves(net, within=1.0)
    assert net.newest.number == 1


# Changes at the same time ----------------------------------------------------------------------------------------


def test_a_promotion_and_a_replacement_at_the_same_time(net):
    net.hosts["p"].perform(net.hosts["p"].member.seek_replacement(net.newest.promoting("p"), net.now))
    net.settle("p")
    net.hosts["s"].seek(net.now)
    net.settle("s")
    serves(net, within=2.5)
    net.run(5.0)
    assert net.newest.number <= 3


def test_two_standbys_that_seek_promotion_at_the_same_time():
    net = StandbyNetwork.begun("pst", "vw", wanted=3)
    net.kill("p")
    net.run(0.9)
    for machine in "st":
        net.hosts[machine].seek(net.now)
        net.settle(machine)
    serves(net)


def test_a_standby_that_fails_to_be_promoted_delays_nothing(net):
    net.hosts["s"].seek(net.now)
    net.settle("s")
    assert serves(net) <= 0.4
    assert net.newest.number == 1
    assert net.primary == "p"


def test_an_invited_standby_takes_over(net):
    net.hosts["p"].step_down("s")
    net.settle("p")
    net.run(2.0)
    serves(net, within=0.4)
    assert net.primary == "s"
    assert net.newest.copies == ("s", "p")


def test_candidates_that_change_to_and_fro_move_no_copies():
    net = StandbyNetwork.begun(fresh=("x", "y"))
    for place in range(40):
        net.name_candidates(["p", "s", "w"] if place % 2 else ["p", "x", "y"])
        net.run(0.25)
    assert net.newest.copies == ("p", "s")
    net.name_candidates(["p", "x", "y"])
    net.run(20.0)
    assert net.newest.copies == ("p", "x")


# Beginnings and ends ---------------------------------------------------------------------------------------------


def test_a_new_broker_finds_a_standby_and_a_witness():
    net = StandbyNetwork.begun("p", "", fresh=("a", "b", "c"), seconds=0.5)
    assert not net.newest.may_have_clients
    net.run(3.0)
    assert len(net.newest.copies) == 2
    assert len(net.newest.members) == 3
    serves(net)


def test_two_machines_alone_need_an_operator():
    net = StandbyNetwork.begun("ps", "")
    net.kill("p")
    net.run(20.0)
    assert net.newest.number == 1
    assert net.hosts["s"].member.lacks_majority(net.now)
    net.hosts["s"].decree(net.now)
    net.settle("s")
    serves(net)
    assert net.primary == "s"
    assert net.newest.may_have_clients


def test_a_view_spreads_though_all_are_gone_who_chose_it():
    """p and its old members have chosen a view of machines that have heard nothing of it, and p is lost (rule 11)."""
    net = StandbyNetwork.begun(fresh=("x", "y"))
    p, x = net.hosts["p"], net.hosts["x"]
    x.boot(p.register, p.store, net.now)
    net.cut(("p", "x"), ("p", "y"))
    p.perform(p.member.seek_replacement(View("b", 2, ("p", "x"), ("y",), dict.fromkeys("pxy", "")), net.now))
    net.settle("p")
    net.run(0.05)
    assert [net.hosts[each].member.number for each in "pswxy"] == [2, 2, 2, 1, 0]
    net.kill("p")
    net.cut(*((old, new) for old in "sw" for new in "xy"))
    net.run(3.0)
    assert [net.hosts[each].member.number for each in "swxy"] == [2, 2, 1, 0]
    net.heal()
    serves(net, within=10.0)
    assert net.primary == "x"


def test_a_view_is_not_closed_for_a_change_that_too_few_can_agree_to():
    """Two copies are enough to confirm, and not to choose another witness (rule 12)."""
    net = StandbyNetwork.begun("ps", "tvw", fresh=("x",), wanted=3, seconds=0.4)
    for machine in "tvw":
        net.isolate(machine)
    net.run(10.0)
    assert serves(net) <= 0.4
    assert net.newest.number == 1


@pytest.mark.parametrize("moment", [0.0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18])
def test_an_invited_standby_takes_over_where_messages_are_slow(net, moment):
    net.latency = 0.18
    net.run(moment)
    net.hosts["p"].step_down("s")
    net.settle("p")
    net.run(3.0)
    assert net.primary == "s"
    assert net.newest.number == 2
