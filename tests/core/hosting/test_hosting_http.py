"""Components that move (S4 §3.4, for state): sums are exact over moves, crashes and aborts; and mutants of that."""

from __future__ import annotations

import pytest

from pleach.core.hosting.machine import Hosting
from pleach.core.hosting.running_sum import RunningSum
from pleach.core.messages import Resume
from pleach.core.mobility.source import MovementSource
from support.hosting.component_networks import judge_lodging
from support.overlay.changing_trees import SETTINGS, Manner, manner_of
from support.thorough import FACTOR

STRIDE = 31  # has no factor in common with the number of settings: all of them, and all manners, come up
SEEDS = [STRIDE * n for n in range(8 * FACTOR)]
AMONG_MUTANTS = SEEDS[:7]


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_exact_wherever_they_are_taken(seed):
    judgement = judge_lodging(seed)
    assert not judgement.flaws, f"seed {seed}: {judgement.flaws}"
    assert judgement.said


def test_the_samples_have_every_manner_and_components_move():
    assert {manner_of(seed) for seed in SEEDS} == set(Manner)
    assert len({seed % len(SETTINGS) for seed in SEEDS}) == min(len(SEEDS), len(SETTINGS))
    assert sum(judge_lodging(seed).moved for seed in SEEDS[:3]) > 1


# Mutants: the checks see what they are there for ----------------------------------------------------------------


def flaws(seeds=AMONG_MUTANTS):
    return (flaw for seed in seeds for flaw in judge_lodging(seed).flaws)


def test_a_state_that_is_behind_what_was_delivered_is_seen(monkeypatch):
    """As of the negotiation, not of the moment at which the component has halted."""
    stale = {}
    kind_of, pack = Hosting.kind_of, Hosting.pack

    def early(self, client):
        if client in self.here:
            stale[client] = pack(self, client)
        return kind_of(self, client)

    monkeypatch.setattr(Hosting, "kind_of", early)
    monkeypatch.setattr(Hosting, "pack", lambda _self, client: stale.get(client, b""))
    assert any(flaws())


def test_a_component_that_comes_without_its_state_is_seen(monkeypatch):
    monkeypatch.setattr(RunningSum, "restore", lambda *_: None)
    assert any("said" in flaw for flaw in flaws())


def test_a_component_that_stays_although_it_has_gone_is_seen(monkeypatch):
    heard = Hosting._heard

    def keen(self, name, message):
        return (
            [] if isinstance(message, Resume) and message.broker != self._context.name else heard(self, name, message)
        )

    monkeypatch.setattr(Hosting, "_heard", keen)
    assert any("lives at" in flaw for flaw in flaws())


def test_a_source_that_does_not_say_how_it_ended_is_seen(monkeypatch):
    """After a refusal it has to go on."""
    monkeypatch.setattr(Hosting, "take_in", _refuses)
    assert not any(flaws(SEEDS[:1]))
    monkeypatch.setattr(MovementSource, "_stay", lambda _self: [])
    assert any("halted" in flaw for flaw in flaws())


def _refuses(_self, client, _state):
    from pleach.errors import ComponentError  # noqa: PLC0415

    raise ComponentError(client, "not today")
