"""Rights are filters (docs/protocols/rights.md)."""

from collections import Counter

import pytest

from pleach.core.access.rights import (
    CONJUNCTION_CHARACTERS_REMEMBERED,
    EVERYTHING,
    FALSE,
    NOTHING,
    TRUE,
    Denied,
    Granted,
    Rights,
    conjunction,
    judge,
    redacted,
    without_hidden,
)
from pleach.core.access.tenants import of_tenant
from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter, parse_internal
from pleach.core.events.sized_cache import SizedCache
from pleach.core.messages import Layer, pack, unpack
from pleach.errors import FilterError
from support.access.random_rights import judge_case
from support.thorough import FACTOR

CASES = 3_000 * FACTOR
EU = parse_filter("region = 'eu' AND level < 5")


def subscriber(right: str, *, hidden: tuple[str, ...] = (), strict: bool = False) -> Rights:
    return Rights(FALSE, parse_filter(right), FALSE, hidden, strict)


def judged(asked: str, rights: Rights) -> Granted | Denied:
    return judge(parse_filter(asked), Layer.SUBSCRIPTIONS, rights)


def test_a_filter_within_the_right_is_granted_as_asked():
    asked = parse_filter("region = 'eu' AND level = 1")
    assert judge(asked, Layer.SUBSCRIPTIONS, subscriber("region = 'eu'")) == Granted(asked, is_narrowed=False)


def test_an_overlapping_filter_is_narrowed_to_what_both_match():
    granted = judged("level < 5", subscriber("region = 'eu'"))
    assert granted == Granted(EU, is_narrowed=True)


def test_a_strict_right_denies_what_it_would_narrow_and_names_itself():
    denied = judged("level < 5", subscriber("region = 'eu'", strict=True))
    assert isinstance(denied, Denied)
    assert "region = 'eu'" in denied.reason


def test_a_filter_that_no_permitted_event_matches_is_denied():
    assert isinstance(judged("region = 'us'", subscriber("region = 'eu'")), Denied)
    assert isinstance(judged("TRUE", NOTHING), Denied)


@pytest.mark.parametrize("asked", ["salary > 5", "NOT EXISTS salary", "region = 'eu' OR salary = 1 AND level = 2"])
def test_a_filter_that_names_a_hidden_attribute_is_denied(asked):
    """By its answers it would tell the value, also where the right itself covers it."""
    denied = judged(asked, subscriber("TRUE", hidden=("salary",)))
    assert isinstance(denied, Denied)
    assert "salary" in denied.reason


def test_each_layer_has_a_right_of_its_own():
    rights = Rights(FALSE, subscribe=TRUE, advertise=FALSE)
    assert isinstance(judge(EU, Layer.SUBSCRIPTIONS, rights), Granted)
    assert isinstance(judge(EU, Layer.ADVERTISEMENTS, rights), Denied)


def test_everything_grants_everything_as_asked():
    assert all(judge(EU, layer, EVERYTHING) == Granted(EU, is_narrowed=False) for layer in Layer)


def test_a_right_that_covers_only_by_all_its_parts_together_does_not_narrow():
    """`covers` misses it; the conjunction shows it, also under `strict`."""
    right = "a = 1 AND b = 1 OR a = 1 AND b <> 1 OR NOT EXISTS a"
    assert judged("a = 1 AND b > 0", subscriber(right, strict=True)).filter.text == "a = 1 AND b > 0"


def test_a_conjunction_beyond_the_bound_is_denied_with_the_remedy():
    asked = parse_internal(" OR ".join(f"a = {n} AND b{n} = {n}" for n in range(40)))
    right = parse_internal(" OR ".join(f"c = {n} AND d{n} = {n}" for n in range(40)))
    with pytest.raises(FilterError):
        conjunction(asked, right)
    denied = judge(asked, Layer.SUBSCRIPTIONS, Rights(TRUE, right, TRUE))
    assert isinstance(denied, Denied)
    assert "in several parts" in denied.reason


def test_a_long_filter_meets_its_bound():
    """Each conjunction of the right would repeat the whole list, and neighbours would refuse the result."""
    asked = parse_internal(f"a IN ({', '.join(map(str, range(600)))})")
    right = parse_internal(" OR ".join(f"b{n} = 1" for n in range(60)))
    with pytest.raises(FilterError, match=r"conditions|costs too much"):
        conjunction(asked, right)


def test_a_right_that_names_what_is_hidden_is_shown_without_it():
    effective = parse_filter("region = 'eu' AND salary < 5 OR salary > 7 AND region = 'eu' OR level = 1")
    assert without_hidden(effective, ("salary",)) == parse_filter("region = 'eu' OR level = 1")
    assert without_hidden(EU, ("salary",)) is EU


def test_a_tenant_is_not_told_that_its_rights_are_those_of_a_tenant():
    scope = of_tenant("acme")
    rights = Rights(TRUE, conjunction(EU, scope), TRUE, ("salary",), scope=scope)
    assert rights.shown(conjunction(rights.subscribe, parse_filter("salary < 5"))) == EU
    unconfined = Rights(TRUE, TRUE, TRUE)
    assert unconfined.shown(scope) is scope, "who sees all tenants is told which"


def test_what_is_remembered_of_conjunctions_is_bounded_by_the_texts_of_all_three(monkeypatch):
    cache = SizedCache(CONJUNCTION_CHARACTERS_REMEMBERED)
    monkeypatch.setattr("pleach.core.access.rights._conjunctions", cache)
    few, many = parse_filter("a < 5"), parse_filter(" AND ".join(f"{name} < 5" for name in "bcdefg"))
    for a, b in ((few, many), (many, few)):
        before = cache.size
        made = conjunction(a, b)
        assert cache.size - before == len(a.text) + len(b.text) + len(made.text)
        assert conjunction(a, b) is made


def test_an_event_is_redacted_only_where_it_has_something_hidden():
    event = Event(EventId("p", 0, 1), {"a": 1, "salary": 9}, b"x")
    assert redacted(event, ("salary",)) == Event(event.id, {"a": 1}, b"x")
    assert redacted(event, ("other",)) is event


def test_rights_travel():
    rights = Rights(EU, TRUE, FALSE, ("salary",), strict=True)
    assert unpack(pack(rights), Rights) == rights


# Random rights, filters and events ------------------------------------------------------------------------------


def test_nobody_gets_more_than_its_right_and_nobody_is_denied_the_rest():
    judgements = [judge_case(seed) for seed in range(CASES)]
    assert [flaw for each in judgements for flaw in each.flaws] == []
    outcomes = Counter(each.outcome for each in judgements)
    assert all(outcomes[outcome] > CASES // 20 for outcome in ("granted", "narrowed", "denied")), outcomes


def _grants_what_overlaps(asked: Filter, layer: int, rights: Rights) -> Granted | Denied:
    verdict = judge(asked, layer, rights)
    return Granted(asked, is_narrowed=False) if isinstance(verdict, Granted) else verdict


def _denies_what_overlaps(asked: Filter, layer: int, rights: Rights) -> Granted | Denied:
    verdict = judge(asked, layer, rights)
    return Denied("") if isinstance(verdict, Granted) and verdict.is_narrowed else verdict


def _ignores_hidden(asked: Filter, layer: int, rights: Rights) -> Granted | Denied:
    return judge(asked, layer, Rights(rights.publish, rights.subscribe, rights.advertise, (), rights.strict))


def _mistakes_the_layer(asked: Filter, layer: int, rights: Rights) -> Granted | Denied:
    return judge(asked, 1 - layer, rights)


def _grants_the_right(asked: Filter, layer: int, rights: Rights) -> Granted | Denied:
    verdict = judge(asked, layer, rights)
    return verdict._replace(filter=rights.requested(layer)) if isinstance(verdict, Granted) else verdict


@pytest.mark.parametrize(
    "mutant",
    [_grants_what_overlaps, _denies_what_overlaps, _ignores_hidden, _mistakes_the_layer, _grants_the_right],
)
def test_the_check_catches_a_wrong_judge(mutant):
    assert any(judge_case(seed, mutant).flaws for seed in range(CASES))
