"""Which kinds of components a broker can host: the built-in ones, and those that its settings name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from pleach.core.hosting.component import Factory
from pleach.core.hosting.running_sum import BUILT_IN
from pleach.errors import SettingsError
from pleach.server.settings import BrokerSettings


def factories(settings: BrokerSettings) -> Mapping[str, Factory]:
    """What a broker can host; raises SettingsError where a kind cannot be found."""
    return {**BUILT_IN, **{kind: _found(kind, place) for kind, place in sorted(settings.components.items())}}


def _found(kind: str, place: str) -> Factory:
    module, _, name = place.partition(":")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "write MODULE:FACTORY of something that Python can import where the broker runs"
        raise SettingsError(f"components.{kind}", f"{place!r} is not to be found: {error}", remedy) from None
    if not callable(factory):
        raise SettingsError(f"components.{kind}", f"{place!r} cannot be called", "name a class, or a function")
    return factory  # type: ignore[no-any-return]
