"""Rights that change while trees change, clients move and brokers crash (support/access/changing_rights.py)."""

import pytest

from pleach.core.access.client_access import ClientAccess
from pleach.core.overlay.permits import Permits
from pleach.core.routing.clients import ClientTable
from support.access.changing_rights import judge_rights_together
from support.overlay.changing_trees import SETTINGS
from support.thorough import FACTOR

STRIDE = 11  # over settings and manners
SEEDS = range(0, 4 * len(SETTINGS) * FACTOR, STRIDE)
FOR_MUTANTS = (0, 3, 4, 6, 46, 65, 94, 99, 133, 140)


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_gets_what_its_right_does_not_match_and_nothing_else_is_lost(seed):
    assert judge_rights_together(seed).flaws == []


def _judges_nothing_anew(monkeypatch):
    monkeypatch.setattr(ClientTable, "_rejudge", lambda _, __: [])


def _delivers_until_it_is_judged(monkeypatch):
    monkeypatch.setattr(ClientAccess, "screens", property(lambda access: bool(access.rights.hidden)))


def _shows_what_is_hidden(monkeypatch):
    monkeypatch.setattr(ClientTable, "_screen", lambda _, sends: sends)


def _does_not_pass_the_seam(monkeypatch):
    handle = Permits.handle

    def direct(self, sender, message, *, now):
        reaction = handle(self, sender, message, now=now)
        if reaction.on_behalf is None:
            return reaction
        sends = self._context.sessions.handle(*reaction.on_behalf)
        return reaction._replace(effects=[*reaction.effects, *sends], on_behalf=None)

    monkeypatch.setattr(Permits, "handle", direct)


@pytest.mark.parametrize(
    "mutate",
    [
        _judges_nothing_anew,
        _delivers_until_it_is_judged,
        _shows_what_is_hidden,
        _does_not_pass_the_seam,
    ],
)
def test_a_mutant_is_caught(mutate, monkeypatch):
    mutate(monkeypatch)
    assert any(_is_caught(seed) for seed in FOR_MUTANTS)


def _is_caught(seed):
    try:
        return bool(judge_rights_together(seed).flaws)
    except Exception:  # noqa: BLE001 a mutant may break anything
        return True
