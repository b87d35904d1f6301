"""All named limits of the core at 1 or 2: what lies beyond a limit is widened, sent apart or computed anew, never lost.

Limits are found by their names (`…_MAX`, `…_USUAL`) in all modules of `pleach.core`, so that a new one is lowered as
soon as it is there. `KEPT` has those that stay as they are, with the reason: inputs are refused beyond them, or they
are a bound that the world keeps, or they are no limit of size.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import MappingProxyType, ModuleType

import pytest

import pleach.core
from pleach.core.events.budget import Steps

LIMIT = re.compile(r"[A-Z][A-Z0-9_]*_(MAX|USUAL)")

REFUSED = "what is beyond it is refused"
MEMORY = "far more than can be late at once: whoever is later is told that nothing is known"
VALUE = "the largest value that fits, not a number of things"
TIME = "a time, a number of attempts, or of periods"
WORLD = "a size that the network is given, and must hold all of it"
PRINTED = "of what is printed"

KEPT = MappingProxyType(
    {
        "access.client_access.EXPECTED_MAX": REFUSED,
        "client.state.ROUNDS_UNANSWERED_MAX": TIME,
        "events.budget.LITERAL_BYTES_MAX": REFUSED,
        "events.cloudevents.IDENTITY_CHARACTERS_MAX": REFUSED,
        "events.event.ATTRIBUTES_MAX": REFUSED,
        "events.event.ATTRIBUTE_NAME_BYTES_MAX": REFUSED,
        "events.event.EVENT_BYTES_MAX": REFUSED,
        "events.event.PUBLISHER_BYTES_MAX": REFUSED,
        "events.event.INTEGER_MAX": VALUE,
        "events.index.predicates.EXACT_MAX": VALUE,
        "events.normalise.DISTRIBUTED_MAX": REFUSED,
        "events.ranges.CHARACTER_MAX": VALUE,
        "events.tokens.INTEGER_DIGITS_MAX": REFUSED,
        "hosting.component.PUBLICATIONS_MAX": REFUSED,
        "hosting.component.STATE_BYTES_MAX": REFUSED,
        "hosting.machine.COMPONENTS_MAX": REFUSED,
        "links.frames.FALLBACKS_MAX": REFUSED,
        "links.frames.FRAME_BYTES_MAX": REFUSED,
        "links.frames.LOGIN_BYTES_MAX": REFUSED,
        "links.frames.NETWORK_SETTINGS_MAX": REFUSED,
        "links.frames.NETWORK_SETTING_CHARACTERS_MAX": REFUSED,
        "links.frames.NUMBER_MAX": VALUE,
        "links.frames.PROBE_PATH_MAX": REFUSED,
        "links.session.HEARTBEATS_MISSED_MAX": TIME,
        "messages.council.RADIUS_MAX": REFUSED,
        "messages.council.TOUCHED_MAX": REFUSED,
        "messages.locations.VIEW_MEMBERS_MAX": REFUSED,
        "mobility.admission.CLIENTS_MAX": REFUSED,
        "mobility.admission.NAMES_MAX": REFUSED,
        "mobility.machine.UNSURE_MAX": MEMORY,
        "optimise.council.HEARD_MAX": WORLD,
        "optimise.council_settings.EVERY_SECONDS_MAX": TIME,
        "optimise.improvement.DEGREE_MAX": WORLD,
        "optimise.settling.INTERVAL_MAX": TIME,
        "optimise.settling.PATIENCE_MAX": TIME,
        "optimise.sightings.HASH_MAX": VALUE,
        "optimise.sightings.LEVEL_MAX": VALUE,
        "optimise.sightings.NOTE_SECONDS_MAX": TIME,
        "overlay.coloured.broker.EARLY_MAX": REFUSED,
        "overlay.coloured.broker.HELD_MAX": REFUSED,
        "overlay.coloured.client_handover.TURNS_MAX": TIME,
        "overlay.coloured.requests.PENDING_MAX": REFUSED,
        "overlay.coloured.requests.ROUNDS_MAX": TIME,
        "overlay.exchange.failures.KEPT_MAX": MEMORY,
        "overlay.locations.BROKERS_MAX": WORLD,
        "overlay.locations.HOSTS_MAX": WORLD,
        "overlay.plans.difference.SHOWN_MAX": PRINTED,
        "overlay.plans.plan.STEPS_MAX": REFUSED,
        "overlay.plans.planfile.BYTES_MAX": REFUSED,
        "overlay.plans.run.NAME_CHARACTERS_MAX": REFUSED,
        "overlay.plans.topology.BROKERS_MAX": REFUSED,
        "overlay.plans.topology.NAMES_SHOWN_MAX": PRINTED,
        "overlay.plans.topology.NAME_BYTES_MAX": REFUSED,
        "overlay.remote_requests.TAKEN_MAX": MEMORY,
        "overlay.retries.RETRIES_MAX": TIME,
        "overlay.seam.FORSAKEN_MAX": MEMORY,
        "ring.chord.FORMER_ASKED_MAX": TIME,
        "ring.chord.JOIN_ATTEMPTS_MAX": TIME,
        "ring.config.SUCCESSORS_MAX": REFUSED,
        "ring.keys.BITS_MAX": VALUE,
        "ring.lookups.HOPS_MAX": WORLD,
        "ring.lookups.SILENT_MAX": WORLD,
        "ring.reference_tree.DEGREE_MAX": WORLD,
        "routing.clients.NAMES_PER_CLIENT_MAX": REFUSED,
        "routing.exports.NUMBER_MAX": VALUE,
        "routing.exports.UNANSWERED_SPAN_MAX": VALUE,
        "routing.merged.NUMBER_BYTES_MAX": VALUE,
        "standby.views.MEMBERS_MAX": REFUSED,
        "standby.views.ROUNDS_AHEAD_MAX": REFUSED,
        "standby.views.VIEWS_AHEAD_MAX": REFUSED,
    }
)


def limits() -> dict[str, object]:
    """All limits of the core, by module and name."""
    return {
        f"{module.__name__.removeprefix('pleach.core.')}.{name}": value
        for module in _modules()
        for name, value in vars(module).items()
        if LIMIT.fullmatch(name) and _is_defined_in(module, name)
    }


def lower(patch: pytest.MonkeyPatch, value: int) -> list[str]:
    """Set all limits but those that are kept; returns which. What was computed with others is forgotten."""
    lowered = [name for name in limits() if name not in KEPT]
    short = {name.rpartition(".")[2]: limits()[name] for name in lowered}
    for module in _modules():
        for name in [each for each in vars(module) if each in short and vars(module)[each] == short[each]]:
            patch.setattr(module, name, value)
    patch.setattr(Steps.__init__, "__defaults__", (value,))
    forget_results()
    return lowered


def forget_results() -> None:
    for module in _modules():
        for each in list(vars(module).values()):
            if hasattr(each, "cache_clear"):
                each.cache_clear()


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(pleach.core.__path__, "pleach.core."):
        yield sys.modules.get(found.name) or importlib.import_module(found.name)


def _is_defined_in(module: ModuleType, name: str) -> bool:
    """Not imported from elsewhere: its own source assigns it."""
    source = module.__spec__.loader.get_source(module.__name__)  # type: ignore[union-attr]
    return bool(re.search(rf"^(?:[A-Z0-9_]+, )*{name}\b[^=\n]*=", source or "", re.MULTILINE))
