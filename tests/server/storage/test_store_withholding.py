"""Payloads that are rewritten after they were committed (core/links/withholding.py)."""

from __future__ import annotations

import pytest
from test_store import EPOCH, batch, count_rows, fanned_out

from pleach.core.links.endpoint import Batch, Progress, Queued
from pleach.server.storage.store import Store


def rewriting(*rewritten, **progress):
    return batch(**progress)._replace(rewritten=[Queued(*each) for each in rewritten])


def outboxes(store):
    return {peer: state.outbox for peer, state in store.load().sessions.items()}


@pytest.fixture
def path(tmp_path):
    """Two payloads for both a and b."""
    with Store.open(tmp_path, "n", epoch=EPOCH) as store:
        store.commit(fanned_out(1, b"secret", ["a", "b"]))
        store.commit(fanned_out(2, b"open", ["a", "b"]))
    return tmp_path


def test_a_rewritten_payload_is_that_of_its_recipient_alone(path):
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(rewriting(("a", 1, b"...")))
        assert outboxes(store) == {"a": [b"...", b"open"], "b": [b"secret", b"open"]}
    with Store.open(path, "n", epoch=EPOCH) as store:
        assert outboxes(store) == {"a": [b"...", b"open"], "b": [b"secret", b"open"]}


def test_the_former_payload_goes_with_its_last_recipient(path):
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(rewriting(("a", 1, b"..."), ("b", 1, b"---")))
    assert count_rows(path) == 3, "two rewritten ones, and what is for both"
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(batch(a=(1, 0, 3), b=(1, 0, 3)))
        assert outboxes(store) == {"a": [], "b": []}
    assert count_rows(path) == 0


def test_it_may_be_rewritten_twice(path):
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(rewriting(("a", 1, b"one")))
        store.commit(rewriting(("a", 1, b"two")))
        assert outboxes(store)["a"] == [b"two", b"open"]
    assert count_rows(path) == 3
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(batch(a=(1, 0, 3), b=(1, 0, 3)))
    assert count_rows(path) == 0


def test_what_is_confirmed_meanwhile_is_not_written_again(path):
    """A confirmation may be on the disk ahead of the batch that rewrites, or come in the same one."""
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(batch(a=(1, 0, 2)))
        store.commit(rewriting(("a", 1, b"..."), ("b", 1, b"..."), b=(1, 0, 2)))
        assert outboxes(store) == {"a": [b"open"], "b": [b"open"]}
    assert count_rows(path) == 1


def test_a_forgotten_session_is_not_rewritten(path):
    with Store.open(path, "n", epoch=EPOCH) as store:
        store.commit(rewriting(("a", 1, b"..."))._replace(forgotten=["a"]))
        assert outboxes(store) == {"b": [b"secret", b"open"]}
        assert Batch.empty()._replace(rewritten=[Queued("b", 1, b"x")]).changes_disk
        store.commit(rewriting(("a", 1, b"..."), ("b", 2, b"y")))
        assert outboxes(store) == {"b": [b"secret", b"y"]}


def test_new_and_rewritten_payloads_in_one_batch(path):
    with Store.open(path, "n", epoch=EPOCH) as store:
        mixed = rewriting(("a", 2, b"..."))._replace(
            queued=[Queued("a", 3, b"new"), Queued("b", 3, b"new")],
            progress=dict.fromkeys("ab", Progress(EPOCH, 1, 0, 1)),
        )
        store.commit(mixed)
        assert outboxes(store) == {"a": [b"secret", b"...", b"new"], "b": [b"secret", b"open", b"new"]}
