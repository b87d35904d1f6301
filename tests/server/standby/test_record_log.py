"""The latest records: who can be brought up by them, and how far behind somebody is."""

from pleach.core.standby.positions import Position
from pleach.server.standby.record_log import ENTRY_BYTES, Lag, LoggedRecord, RecordLog


def logged(previous, position, size=10, at=0.0):
    return LoggedRecord(Position(*previous), Position(*position), bytes(size), at)


def log_of(count, size=10, **options):
    log = RecordLog(Position(1, 5), **options)
    previous = (1, 5)
    for number in range(6, 6 + count):
        log.append(logged(previous, (2, number), size, at=float(number)))
        previous = (2, number)
    return log


def numbers(found):
    return [each.position.number for each in found]


def test_a_copy_that_has_all_lacks_nothing():
    assert RecordLog(Position(1, 5)).since(Position(1, 5)) == []
    assert log_of(3).since(Position(2, 8)) == []


def test_a_copy_gets_what_follows_its_position_and_only_if_it_is_in_this_history():
    log = log_of(4)
    assert numbers(log.since(Position(1, 5))) == [6, 7, 8, 9]
    assert numbers(log.since(Position(2, 7))) == [8, 9]
    assert log.since(Position(1, 7)) is None
    assert log.since(Position(1, 4)) is None
    assert log.since(Position(2, 10)) is None
    assert log.since(None) is None


def test_the_oldest_records_are_forgotten():
    log = log_of(10, size=1_000, bytes_max=3 * (1_000 + ENTRY_BYTES))
    assert numbers(log.since(Position(2, 12))) == [13, 14, 15]
    assert log.since(Position(2, 11)) is None


def test_a_record_that_could_not_be_written_is_taken_back():
    """The next commit has its number, and another run."""
    log = log_of(2)
    log.append(logged((2, 7), (2, 8)))
    log.append(logged((2, 7), (9, 8)))
    assert [each.position for each in log.since(Position(2, 6))] == [Position(2, 7), Position(9, 8)]
    assert log.since(Position(2, 8)) is None


def test_how_far_behind_somebody_is():
    log = log_of(4)
    assert log.lag(9, now=20.0) == Lag(0, 0, 0.0)
    assert log.lag(7, now=20.0) == Lag(2, 20, 12.0)
    assert log.lag(0, now=20.0).records == 9
