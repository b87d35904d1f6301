"""Bloom filters and the cache: never a no too many, seldom a yes, the same bits everywhere."""

import subprocess
import sys

from pleach.core.optimise.cache import CACHE_SIZE, Bloom, Cache, shape_for


def cache_of(ids, size=CACHE_SIZE):
    cache = Cache(size)
    for each in ids:
        cache.consumed(each)
    return cache


def ids(first, last):
    return [f"p/0/{i}" for i in range(first, last)]


def test_what_is_in_is_always_found():
    cache = cache_of(ids(0, CACHE_SIZE))
    assert cache.common(cache.summary()) == CACHE_SIZE


def test_it_has_the_size_of_table_5_2():
    assert shape_for(CACHE_SIZE) == (55_296, 7)
    assert len(Cache().summary().bits) == 55_296 // 8


def test_false_positives_are_about_as_rare_as_the_paper_says():
    """S1 §5.6.2: 0.0033 with a full cache. Ten thousand ids: 33 expected, more than 60 would be no accident."""
    summary, shape = cache_of(ids(0, CACHE_SIZE)).summary(), shape_for(CACHE_SIZE)
    assert 10 < sum(summary.has(shape.positions(each)) for each in ids(CACHE_SIZE, CACHE_SIZE + 10_000)) < 60


def test_both_filters_together_have_what_both_have():
    mine, one, other = cache_of(ids(0, 300)), cache_of(ids(100, 400)), cache_of(ids(200, 500))
    both = one.summary() & other.summary()
    assert 100 <= mine.common(both) <= 102
    assert mine.common(Bloom.of(mine.shape, [])) == 0


def test_the_oldest_go_first_and_an_id_counts_once():
    cache = cache_of([*ids(0, 10), *ids(5, 10)], size=8)
    assert len(cache) == 8
    assert cache.common(cache_of(ids(0, 2), size=8).summary()) == 0
    assert cache.common(cache_of(ids(2, 10), size=8).summary()) == 8


def test_another_process_sets_the_same_bits():
    """Whatever its hash seed is."""
    program = (
        "from pleach.core.optimise.cache import *; s = shape_for(16);"
        "print(Bloom.of(s, [s.positions(f'p/0/{i}') for i in range(16)]).bits.hex())"
    )
    told = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)} for seed in ("1", "2"))
    }
    assert told == {cache_of(ids(0, 16), size=16).summary().bits.hex() + "\n"}
