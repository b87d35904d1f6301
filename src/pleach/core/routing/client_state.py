"""The state of one client at its broker, as plain data."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pleach.core.access.client_access import ClientAccess
from pleach.core.events.filter import Filter
from pleach.core.messages import Layer

ORDINARY_CHARACTERS = 1_024  # of a filter's text, per unit of weight


class ClientState(msgspec.Struct, array_like=True):
    """`subscriptions`, `advertisements`: the effective filters, which routing has; `access` has others that were asked.

    `confirmed`: advertisements in effect. Where one has changed and the change is not confirmed yet, with the former
    filter: only events that match both are accepted until then.
    """

    own_events: bool
    subscriptions: dict[str, Filter]
    advertisements: dict[str, Filter]
    confirmed: dict[str, Filter | None]
    access: ClientAccess = msgspec.field(default_factory=ClientAccess)

    @property
    def weight(self) -> int:
        return sum(weight(wanted) for layer in Layer for wanted in self.names(layer).values())

    def names(self, layer: Layer) -> dict[str, Filter]:
        return self.subscriptions if layer is Layer.SUBSCRIPTIONS else self.advertisements

    def asked(self, layer: Layer, name: str) -> Filter | None:
        """The filter that a name stands for; None where it stands for none."""
        effective = self.names(layer).get(name)
        return effective if effective is None else self.access.asked[layer].get(name, effective)

    def put(self, layer: Layer, name: str, asked: Filter, effective: Filter) -> None:
        self.names(layer)[name] = effective
        if asked == effective:
            self.access.asked[layer].pop(name, None)
        else:
            self.access.asked[layer][name] = asked

    def drop(self, layer: Layer, name: str) -> Filter | None:
        """Forget a name. Returns the filter that was in effect."""
        self.access.asked[layer].pop(name, None)
        if layer is Layer.ADVERTISEMENTS:
            self.confirmed.pop(name, None)
        return self.names(layer).pop(name, None)

    def in_effect(self) -> Iterator[tuple[Filter, ...]]:
        """The advertisements that allow events, each as filters that an event must match."""
        for name, advertised in self.advertisements.items():
            if name in self.confirmed:
                former = self.confirmed[name]
                yield (advertised,) if former is None else (advertised, former)

    def copy(self) -> ClientState:
        """Sorted, so that equal states are equal bytes, independent of arrival order."""
        return ClientState(
            self.own_events,
            dict(sorted(self.subscriptions.items())),
            dict(sorted(self.advertisements.items())),
            dict(sorted(self.confirmed.items(), key=lambda each: each[0])),
            self.access.copy(),
        )


def weight(wanted: Filter) -> int:
    """How many ordinary subscriptions a subscription with this filter counts as."""
    return 1 + len(wanted.text) // ORDINARY_CHARACTERS
