"""When a link is passed on by others, and when it goes back to the direct way."""

from pleach.server.relay.choice import (
    ATTEMPT_SECONDS_MAX,
    PATIENCE,
    PROBE_SECONDS,
    PROBES_NEEDED,
    PROBES_NEEDED_MAX,
    SOON_SECONDS,
    PathChoice,
)

AFTER = 1.0


def down(at, heard=None):
    """A link that has gone down, when something was heard last."""
    choice = PathChoice(AFTER, 0.0)
    choice.heard(at if heard is None else heard)
    choice.down(at)
    return choice


def probes_until_return(choice, now, *, dials=True):
    count = 0
    while not choice.is_return_due(dials=dials):
        choice.probed(now, is_answered=True)
        count += 1
    return count


def test_others_are_asked_once_a_link_has_been_down_for_so_long():
    choice = down(10.0)
    assert not choice.is_relay_due(10.9, dials=True)
    assert choice.is_relay_due(11.0, dials=True)


def test_silence_before_counts_for_the_side_that_dials_and_not_for_the_other():
    choice = down(10.0, heard=8.0)
    assert choice.is_relay_due(10.0, dials=True)
    assert not choice.is_relay_due(10.9, dials=False)
    assert choice.is_relay_due(11.0, dials=False)


def test_a_link_that_is_up_is_left_alone():
    choice = down(10.0)
    choice.heard(10.5)
    assert not choice.is_relay_due(100.0, dials=True)


def test_attempts_come_ever_more_seldom_and_often_again_after_the_link_was_up():
    choice, now, waits = down(10.0), 11.0, []
    for _ in range(10):
        choice.attempted(now)
        since = now
        while not choice.is_relay_due(now, dials=True):
            now += 0.0625
        waits.append(now - since)
    assert waits[0] < 0.5
    assert waits == sorted(waits)
    assert ATTEMPT_SECONDS_MAX <= waits[-1] < ATTEMPT_SECONDS_MAX + 0.1
    choice.heard(now)
    choice.down(now)
    choice.attempted(now + AFTER)
    assert choice.is_relay_due(now + AFTER + 0.3, dials=True)


def test_a_link_goes_back_after_answers_in_a_row():
    choice = down(10.0)
    choice.relayed(11.0)
    assert not choice.is_probe_due(11.0)
    assert choice.is_probe_due(11.0 + PROBE_SECONDS)
    for is_answered in (True, True, False, True, True):
        choice.probed(12.0, is_answered=is_answered)
        assert not choice.is_return_due(dials=True)
    choice.probed(13.0, is_answered=True)
    assert choice.is_return_due(dials=True)


def test_the_side_that_does_not_dial_waits_for_more_of_them():
    choice = down(10.0)
    choice.relayed(11.0)
    assert probes_until_return(choice, 12.0, dials=False) == PATIENCE * PROBES_NEEDED


def test_a_way_that_comes_and_goes_has_to_answer_ever_more_often_and_is_forgiven_once_it_stays():
    choice, now, needed = down(10.0), 10.0, []
    for _ in range(10):
        choice.relayed(now)
        needed.append(probes_until_return(choice, now))
        choice.returned(now)
        now += SOON_SECONDS / 2
    assert needed[:4] == [3, 6, 12, 24]
    assert needed[-1] == PROBES_NEEDED_MAX
    choice.relayed(now + SOON_SECONDS)
    assert probes_until_return(choice, now) == PROBES_NEEDED
