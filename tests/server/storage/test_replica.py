"""A replica has what its primary has, after every record and every fill; or says that it has not."""

from __future__ import annotations

import os
import shutil
import stat
from random import Random

import msgspec
import pytest

from pleach.core.links.endpoint import Batch, Journalled, Progress, Queued
from pleach.core.standby.positions import Position
from pleach.disk.checked_tables import checked
from pleach.errors import AstrayError, RecordError, StoreBrokenError, StoreError, StoreFullError
from pleach.server.storage import fill as fill_module
from pleach.server.storage.database import BYTES_MIN, COMMITTED, DATABASE, FILLED, FILLING, LOCK, inspect_store
from pleach.server.storage.records import INTEGER_MAX, decode_record, encode_record
from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store
from support.standby.random_batches import RandomBatches

EPOCH, RUN = 7, 500


class Primary:
    """A store, and the records that it has handed out since they were taken last."""

    def __init__(self, folder, *, bytes_max=None, run=RUN):
        self.store = Store.open(folder, "b", epoch=EPOCH, bytes_max=bytes_max)
        if run:
            self.store.begin_run(run)
        self.records = []
        self.store.on_record = lambda *record: self.records.append(record)

    def write(self, number, size=20):
        """The same for the same number."""
        batch = Batch.empty()._replace(
            journal=[Journalled("a", b"%d" % number, float(number))],
            queued=[Queued(peer, number, b"%6d" % number + b"." * size) for peer in ("a", "c")],
            progress={peer: Progress(EPOCH, 1, number, max(1, number - 20)) for peer in ("a", "c")},
        )
        self.store.commit(batch)

    def taken(self):
        records, self.records = self.records, []
        return records


@pytest.fixture
def primary(tmp_path):
    primary = Primary(tmp_path / "primary")
    yield primary
    primary.store.close()


@pytest.fixture
def replica(tmp_path):
    replica = Replica.open(tmp_path / "replica", "b")
    yield replica
    replica.close()


def chunks_of(fill):
    while (chunk := fill.next_chunk()) is not None:
        yield chunk


def fill_up(primary, replica):
    """Without commits in between."""
    primary.taken()
    replica.begin_fill()
    fill = primary.store.fill()
    for chunk in chunks_of(fill):
        replica.take(chunk)
    replica.end_fill(fill.position)


def content(folder):
    with Store.open(folder, "b", epoch=99) as store:
        return store.load(), store.made_with({}), store.epoch, store.position


def content_of(primary):
    store = primary.store
    return store.load(), store.made_with({}), store.epoch, store.position


def same(primary, replica):
    """The replica, closed, is a data directory with the content of the primary; returns it, opened again."""
    assert replica.position == primary.store.position
    replica.close()
    assert content(replica.folder) == content_of(primary)
    return Replica.open(replica.folder, "b")


# Positions -----------------------------------------------------------------------------------------------------


def test_a_new_store_is_at_the_beginning_of_run_0(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.position == Position(0, 1)
        store.commit(Batch.empty())
        assert store.position == Position(0, 2)
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.position == Position(0, 2)
        store.commit(Batch.empty())
        assert store.position == Position(0, 3), "nobody has a copy of a store without a run"


def test_a_run_begins_with_its_first_commit(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.begin_run(RUN)
        assert store.position == Position(0, 1)
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.position == Position(0, 1)
        store.begin_run(RUN + 1)
        store.commit(Batch.empty())
        assert store.position == Position(RUN + 1, 2)
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        assert store.position == Position(RUN + 1, 2)


def test_who_begins_no_run_does_not_go_on_with_that_of_another(tmp_path):
    """A record of that run may have left, and its commit may not have been written."""
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.begin_run(RUN)
        store.commit(Batch.empty())
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.made_with({"key": "value"})
        first = store.position
        store.commit(Batch.empty())
        assert first.number == 3
        assert first.run not in (0, RUN)
        assert store.position == Position(first.run, 4)


def test_records_are_handed_out_before_the_commit_or_after_it(tmp_path):
    with Store.open(tmp_path, "b", epoch=EPOCH) as store:
        store.begin_run(RUN)
        seen = []
        store.on_record = lambda previous, position, _: seen.append((previous, position, store.position))
        store.commit(Batch.empty())
        store.commit(Batch.empty(), record_first=False)
        assert seen == [
            (Position(0, 1), Position(RUN, 2), Position(0, 1)),
            (Position(RUN, 2), Position(RUN, 3), Position(RUN, 3)),
        ]


# Records -------------------------------------------------------------------------------------------------------


def test_an_empty_folder_has_no_copy(replica):
    assert (replica.position, replica.is_filling, replica.damage) == (None, False, "")


def test_a_replica_is_filled_and_kept_by_records(primary, replica):
    for number in range(1, 50):
        primary.write(number)
    fill_up(primary, replica)
    replica = same(primary, replica)
    for number in range(50, 100):
        primary.write(number)
    for record in primary.taken():
        replica.apply(*record)
        assert replica.position == record[1]
    same(primary, replica).close()


def test_several_records_are_one_transaction(primary, replica):
    primary.write(1)
    fill_up(primary, replica)
    for number in range(2, 30):
        primary.write(number)
    replica.apply_all(primary.taken())
    replica.apply_all([])
    same(primary, replica).close()


def test_records_that_do_not_follow_are_refused_and_change_nothing(primary, replica):
    for number in range(1, 4):
        primary.write(number)
    fill_up(primary, replica)
    for number in range(4, 9):
        primary.write(number)
    one, two, three, four, five = primary.taken()
    with pytest.raises(AstrayError, match="the copy is at"):
        replica.apply(*two)
    replica.apply_all([one, two])
    for wrong in ([one], [two], [four], [three, five], [three, three], [three, four, three], [four, three]):
        with pytest.raises(AstrayError):
            replica.apply_all(wrong)
        assert replica.position == two[1]
    replica.apply_all([three, four, five])
    same(primary, replica).close()


def test_who_has_no_copy_takes_no_record(primary, replica):
    primary.write(1)
    with pytest.raises(AstrayError, match="there is no copy of b"):
        replica.apply_all(primary.taken())


def test_a_record_that_was_handed_out_and_not_written_leads_astray(tmp_path, replica):
    """The primary's disk is full: what it commits next has another run, and who took the record is filled again."""
    primary = Primary(tmp_path / "primary", bytes_max=BYTES_MIN)
    primary.write(1)
    fill_up(primary, replica)
    at = primary.store.position
    large = Batch.empty()._replace(queued=[Queued("a", 2, b"." * BYTES_MIN)])
    with pytest.raises(StoreFullError):
        primary.store.commit(large, record_first=False)
    assert primary.taken() == []
    with pytest.raises(StoreFullError):
        primary.store.commit(large)
    (ahead,) = primary.taken()
    assert (ahead[:2], primary.store.position) == ((at, Position(RUN, at.number + 1)), at)
    replica.apply(*ahead)
    primary.write(2)
    (record,) = primary.taken()
    assert record[0] == at
    assert record[1].number == ahead[1].number
    assert record[1].run not in (RUN, 0)
    with pytest.raises(AstrayError):
        replica.apply(*record)
    fill_up(primary, replica)
    same(primary, replica).close()
    primary.store.close()


def test_a_commit_that_cannot_be_written_leads_astray_too(primary):
    primary.write(1)
    run = primary.store.position.run
    with pytest.raises(OverflowError):
        primary.store.commit(Batch.empty()._replace(progress={"a": Progress(EPOCH, 1, 2**63, 1)}))
    primary.write(2)
    assert primary.store.position.run != run


# Fills ---------------------------------------------------------------------------------------------------------


def test_chunks_are_small(primary, replica):
    for number in range(1, 101):
        primary.store.commit(
            Batch.empty()._replace(
                queued=[Queued("a", number, bytes([number]) * 100_000)], progress={"a": Progress(EPOCH, 1, 0, 1)}
            )
        )
    fill, sizes = primary.store.fill(), []
    replica.begin_fill()
    for chunk in chunks_of(fill):
        sizes.append(len(chunk))
        replica.take(chunk)
    assert len(sizes) > 10
    assert max(sizes) < 1.2 * fill_module.CHUNK_BYTES
    replica.end_fill(fill.position)
    same(primary, replica).close()


def test_a_fill_ends_although_more_is_written_than_read(primary, replica, monkeypatch):
    monkeypatch.setattr(fill_module, "CHUNK_ROWS_MAX", 1)
    for number in range(1, 11):
        primary.write(number)
    primary.taken()
    fill, number = primary.store.fill(), 10
    replica.begin_fill()
    for chunk in chunks_of(fill):
        replica.take(chunk)
        for _ in range(5):
            number += 1
            primary.write(number)
        replica.apply_all(primary.taken())
    assert number < 250
    replica.end_fill(primary.store.position)
    same(primary, replica).close()


def test_the_copy_that_is_there_stays_until_another_is_whole(primary, replica):
    """A primary that is lost in the middle of a fill has not taken it along."""
    for number in range(1, 20):
        primary.write(number)
    fill_up(primary, replica)
    before = content_of(primary)
    for number in range(20, 40):
        primary.write(number)
    at = replica.position
    replica.begin_fill()
    assert (replica.is_filling, replica.position) == (True, at)
    replica.take(primary.store.fill().next_chunk())
    assert replica.position == at
    replica.close()
    assert content(replica.folder) == before
    again = Replica.open(replica.folder, "b")
    assert (again.position, again.is_filling) == (at, False)
    again.apply_all(primary.taken())
    same(primary, again).close()


def test_an_abandoned_fill_leaves_the_copy_as_it_was(primary, replica):
    primary.write(1)
    fill_up(primary, replica)
    replica.begin_fill()
    replica.take(primary.store.fill().next_chunk())
    primary.write(2)
    (record,) = primary.taken()
    replica.abandon_fill()
    assert not (replica.folder / FILLING).exists()
    replica.apply(*record)
    same(primary, replica).close()


def test_a_fill_may_begin_again(primary, replica):
    for number in range(1, 20):
        primary.write(number)
    replica.begin_fill()
    replica.take(primary.store.fill().next_chunk())
    fill_up(primary, replica)
    same(primary, replica).close()


@pytest.mark.parametrize("missing", range(7))
def test_a_fill_without_one_of_its_chunks_is_not_whole(primary, replica, missing):
    primary.store.made_with({"key": "value"})
    for number in range(1, 20):
        primary.write(number)
    fill = primary.store.fill()
    chunks = list(chunks_of(fill))
    assert len(chunks) == 7
    del chunks[missing]
    replica.begin_fill()
    with pytest.raises(RecordError, match=r"is not whole|before its last chunk"):
        take_all(replica, chunks, fill.position)


def take_all(replica, chunks, position):
    for chunk in chunks:
        replica.take(chunk)
    replica.end_fill(position)


def test_a_fill_without_one_of_its_records_is_astray(primary, replica):
    for number in range(1, 20):
        primary.write(number)
    primary.taken()
    fill = primary.store.fill()
    replica.begin_fill()
    replica.take(fill.next_chunk())
    primary.write(20)
    with pytest.raises(AstrayError, match="a chunk was read at"):
        replica.take(fill.next_chunk())
    primary.write(21)
    with pytest.raises(AstrayError):
        replica.apply_all(primary.taken()[1:])


def test_a_fill_that_ends_elsewhere_is_astray_and_dropped(primary, replica):
    primary.write(1)
    fill = primary.store.fill()
    replica.begin_fill()
    for chunk in chunks_of(fill):
        replica.take(chunk)
    with pytest.raises(AstrayError, match="the fill ends at"):
        replica.end_fill(Position(RUN, fill.position.number + 1))
    assert (replica.is_filling, replica.position) == (False, None)


def test_a_record_that_failed_during_a_fill_leads_astray(tmp_path, replica):
    primary = Primary(tmp_path / "primary", bytes_max=BYTES_MIN)
    primary.write(1)
    primary.taken()
    fill = primary.store.fill()
    replica.begin_fill()
    replica.take(fill.next_chunk())
    with pytest.raises(StoreFullError):
        primary.store.commit(Batch.empty()._replace(queued=[Queued("a", 2, b"." * BYTES_MIN)]))
    replica.apply_all(primary.taken())
    with pytest.raises(AstrayError):
        replica.take(fill.next_chunk())
    primary.store.close()


def test_a_store_of_another_broker_is_no_copy(tmp_path, primary):
    fill = primary.store.fill()
    with Replica.open(tmp_path / "other", "c") as replica:
        replica.begin_fill()
        node = fill.next_chunk()
        with pytest.raises(RecordError, match="the copy is one of c, and the rows are those of b"):
            replica.take(node)
    primary.store.close()
    with pytest.raises(StoreError, match="belongs to b, not to c"):
        Replica.open(tmp_path / "primary", "c")


def test_the_store_of_a_broker_may_become_a_replica(tmp_path, primary):
    """As that of a primary that another machine has replaced."""
    primary.write(1)
    at = primary.store.position
    primary.store.close()
    with Replica.open(tmp_path / "primary", "b") as replica:
        assert replica.position == at


# What crashes leave --------------------------------------------------------------------------------------------


def filled_beside(primary, replica):
    """The folder of a replica whose process died when a new copy was whole, and had not taken its place."""
    primary.write(1)
    fill_up(primary, replica)
    for number in range(2, 30):
        primary.write(number)
    replica.begin_fill()
    fill = primary.store.fill()
    for chunk in chunks_of(fill):
        replica.take(chunk)
    replica._filling.finish(fill.position)
    (replica.folder / FILLING).rename(replica.folder / FILLED)
    replica._filling = None
    return replica.folder


@pytest.mark.parametrize("moved", [(), ("-wal",), ("-wal", DATABASE), ("-wal", DATABASE, COMMITTED)])
@pytest.mark.parametrize("opened_by", ["replica", "store", "inspection"])
def test_a_new_copy_takes_its_place_at_the_next_opening(tmp_path, primary, replica, moved, opened_by):
    source, place = filled_beside(primary, replica), tmp_path / "crashed"
    shutil.copytree(source, place)  # of a process that still runs: with its log
    assert (place / f"{DATABASE}-wal").exists()
    for name in moved:
        if name == "-wal":
            (place / f"{DATABASE}-wal").unlink()
        else:
            (place / FILLED / name).replace(place / name)
    if opened_by == "replica":
        with Replica.open(place, "b") as again:
            assert again.position == primary.store.position
    if opened_by == "inspection":
        assert inspect_store(place).commits == primary.store.position.number
    assert content(place) == content_of(primary)
    assert {path.name for path in place.iterdir()} == {DATABASE, COMMITTED, LOCK}


def test_a_fill_that_was_cut_short_is_deleted_at_the_next_opening(tmp_path, primary, replica):
    primary.write(1)
    fill_up(primary, replica)
    replica.begin_fill()
    replica.take(primary.store.fill().next_chunk())
    shutil.copytree(replica.folder, tmp_path / "crashed")
    assert content(tmp_path / "crashed") == content_of(primary)
    assert not (tmp_path / "crashed" / FILLING).exists()


def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path, primary):
    primary.write(1)
    before = os.umask(0)
    try:
        with Replica.open(tmp_path / "replica", "b") as replica:
            replica.begin_fill()
            filling = {path.name: path for path in (tmp_path / "replica").rglob("*")}
            modes = {name: stat.S_IMODE(path.stat().st_mode) for name, path in filling.items()}
            assert modes.pop(FILLING) == 0o700
            assert set(modes.values()) == {0o600}
            fill_up(primary, replica)
            primary.write(2)
            replica.apply_all(primary.taken())
            modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "replica").iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_a_replica_has_one_owner(tmp_path, replica):
    with pytest.raises(StoreError, match=LOCK):
        Replica.open(tmp_path / "replica", "b")
    with pytest.raises(StoreError, match=LOCK):
        Store.open(tmp_path / "replica", "b", epoch=1)


# Full, broken, damaged -----------------------------------------------------------------------------------------


def test_a_full_replica_has_changed_nothing_and_goes_on_when_there_is_room(tmp_path, primary):
    primary.write(1)
    with Replica.open(tmp_path / "replica", "b", bytes_max=BYTES_MIN) as replica:
        fill_up(primary, replica)
        at = replica.position
        primary.store.commit(Batch.empty()._replace(queued=[Queued("a", 2, b"." * 2 * BYTES_MIN)]))
        records = primary.taken()
        with pytest.raises(StoreFullError):
            replica.apply_all(records)
        assert replica.position == at
    with Replica.open(tmp_path / "replica", "b") as replica:
        assert replica.position == at
        replica.apply_all(records)
        same(primary, replica).close()


def test_a_fill_that_finds_no_room_leaves_the_old_copy(tmp_path, primary):
    primary.write(1)
    with Replica.open(tmp_path / "replica", "b", bytes_max=BYTES_MIN) as replica:
        fill_up(primary, replica)
        at = replica.position
        primary.store.commit(Batch.empty()._replace(queued=[Queued("a", 2, b"." * 2 * BYTES_MIN)]))
        with pytest.raises(StoreFullError):
            fill_up(primary, replica)
        replica.abandon_fill()
        assert replica.position == at


@pytest.mark.parametrize("seed", range(5))
def test_a_replica_takes_what_fits_into_its_primary(tmp_path, seed):
    """The same quota on both sides; pages may be filled otherwise, by a fill and by records."""
    batches = RandomBatches(Random(seed), EPOCH, payload_bytes=60_000)
    primary = Primary(tmp_path / "primary", bytes_max=BYTES_MIN)
    full = False
    with Replica.open(tmp_path / "replica", "b", bytes_max=BYTES_MIN) as replica:
        fill_up(primary, replica)
        for _ in range(1_000):
            try:
                batches.commit_to(primary.store)
            except StoreFullError:
                full = True
                break
            replica.apply_all(primary.taken())
    primary.store.close()
    assert full


def test_a_disk_that_fails_is_not_asked_again(primary, replica):
    primary.write(1)
    fill_up(primary, replica)
    primary.write(2)
    records = primary.taken()
    replica._database.sql.close()
    for _ in range(2):
        with pytest.raises(StoreBrokenError):
            replica.apply_all(records)


def test_a_fill_whose_log_cannot_be_copied_is_dropped(primary, replica):
    primary.write(1)
    fill_up(primary, replica)
    at = replica.position
    primary.write(2)
    fill = primary.store.fill()
    replica.begin_fill()
    for chunk in chunks_of(fill):
        replica.take(chunk)
    reading = replica._filling._database.sql.execute("SELECT * FROM sessions")
    next(reading)
    with pytest.raises(StoreBrokenError):
        replica.end_fill(fill.position)
    assert (replica.position, replica.is_filling) == (at, False)
    replica.apply_all(primary.taken())
    same(primary, replica).close()


@pytest.mark.parametrize("name", [DATABASE, COMMITTED])
def test_a_damaged_copy_counts_as_none_and_is_filled_again(primary, replica, name, caplog):
    for number in range(1, 50):
        primary.write(number, size=500)
    fill_up(primary, replica)
    replica.close()
    data = bytearray((replica.folder / name).read_bytes())
    data[data.index(b"." * 500) if name == DATABASE else 0] ^= 1
    (replica.folder / name).write_bytes(data)
    again = Replica.open(replica.folder, "b")
    assert again.position is None
    assert f"{name} is damaged" in again.damage
    assert "counts as none" in caplog.text
    with pytest.raises(AstrayError):
        again.apply(primary.store.position, Position(RUN, primary.store.position.number + 1), b"")
    fill_up(primary, again)
    assert again.damage == ""
    same(primary, again).close()


# Hostile bytes -------------------------------------------------------------------------------------------------


@pytest.fixture
def following(primary, replica):
    """A filled replica, and the record that follows."""
    for number in range(1, 30):
        primary.write(number)
    fill_up(primary, replica)
    primary.write(30)
    (record,) = primary.taken()
    return record


def refused(primary, replica, record):
    at, rows = replica.position, replica._database.ledger.rows.copy()
    with pytest.raises(RecordError):
        replica.apply(*record)
    assert (replica.position, replica._database.ledger.rows) == (at, rows)


def test_a_record_that_was_changed_or_cut_on_its_way_is_refused(primary, replica, following):
    previous, position, data = following
    stream = Random(3)
    for _ in range(300):
        changed = bytearray(data)
        changed[stream.randrange(len(data))] ^= 1 << stream.randrange(8)
        refused(primary, replica, (previous, position, bytes(changed)))
    for cut in range(len(data)):
        refused(primary, replica, (previous, position, data[:cut]))
    replica.apply(*following)
    same(primary, replica).close()


def test_rows_that_do_not_fit_are_refused(primary, replica, following):
    """Sound bytes, of a history that is not this one."""
    previous, position, data = following
    record = decode_record(data)
    (step,) = record.steps
    outbox, session, entry = step.queued[0], step.sessions[0], record.journal[0]
    assert step.finished
    replace = msgspec.structs.replace
    steps = [
        replace(step, finished=[*step.finished, 999]),
        replace(step, finished=[*step.finished, step.finished[0]]),
        replace(step, queued=[outbox, outbox]),
        replace(step, joined=[session]),
        replace(step, joined=[], sessions=[*step.sessions, checked("sessions", 77, *session[1:-1])]),
    ]
    records = [
        *(replace(record, steps=[each]) for each in steps),
        replace(record, journal=[entry, entry]),
        replace(record, journal=[checked("journal", entry[0], entry[1], entry[2], float("nan"), entry[4])]),
        replace(record, node=checked("node", "somebody", EPOCH, b"state")),
    ]
    for each in records:
        refused(primary, replica, (previous, position, encode_record(each)))
    replica.apply(*following)
    same(primary, replica).close()


HOSTILE = [b"\xc0", b"\x94", b"\xff" * 100, msgspec.msgpack.encode({"a": 1}), msgspec.msgpack.encode([[5], []])]


@pytest.mark.parametrize("data", [b"", b"abc", *HOSTILE])
def test_what_is_no_record_and_no_chunk_is_refused(primary, replica, following, data):
    refused(primary, replica, (*following[:2], data))
    replica.begin_fill()
    with pytest.raises(RecordError):
        replica.take(data)


def chunk_of(*fields):
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize("number", [-1, 2**63])
def test_positions_that_no_database_has_are_refused(primary, replica, following, number):
    previous, position, data = following
    for wrong in (Position(RUN, number), Position(number, position.number), Position(RUN, position.number + 1)):
        refused(primary, replica, (previous, wrong, data))
    replica.begin_fill()
    with pytest.raises(RecordError):
        replica.take(chunk_of(2, [number, 3], {}))


def test_a_row_that_was_damaged_at_its_store_is_refused(primary, replica):
    """Damage to the primary's disk while it runs is found by a fill."""
    primary.write(1)
    primary.store._database.sql.execute("UPDATE outbox SET payload = 'x'")
    fill = primary.store.fill()
    *before, outbox, _ = chunks_of(fill)
    replica.begin_fill()
    for chunk in before:
        replica.take(chunk)
    with pytest.raises(RecordError):
        replica.take(outbox)


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("outbox", [[1, b"", b"", 5]]),
        ("outbox", [[0, b"", b"", 5]]),
        ("outbox", [[INTEGER_MAX + 1, b"", b"", 5]]),
        ("outbox", [["1", b"", b"", 5]]),
        ("outbox", [[1, b""]]),
        ("history", [[1, 5]]),
        ("ledger", [[1, b"", 5]]),
        ("sqlite_master", [[1]]),
        ("outbox; DROP TABLE outbox", [[1]]),
    ],
)
def test_rows_that_are_none_are_refused(replica, table, rows):
    replica.begin_fill()
    with pytest.raises(RecordError):
        replica.take(chunk_of(1, [RUN, 3], table, rows))


def test_two_rows_where_one_belongs_are_no_whole_fill(primary, replica):
    primary.write(1)
    fill = primary.store.fill()
    *chunks, last = chunks_of(fill)
    replica.begin_fill()
    node = checked("node", "b", EPOCH, None)
    for chunk in [*chunks, chunk_of(1, fill.position, "node", [node, node])]:
        replica.take(chunk)
    with pytest.raises(RecordError, match="not whole"):
        replica.take(last)
