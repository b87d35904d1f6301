"""The costs of a network in messages per second: the result of both forms of the model."""

from typing import NamedTuple


class Costs(NamedTuple):
    """Names as in S1 §3.5.3. Messages between a client and its broker are local and not counted."""

    entries: float  # x: occupied remote routing entries
    flooding: float  # b_f: notifications with flooding, each over every link
    filtering: float  # b_n: notifications with filtering, as if all were published at the root
    detour: float  # b_p: additional notifications on the way to the root
    leases: float  # b_l: refreshes
    toggles: float  # b_o: (un)subscriptions between brokers

    @property
    def notifications(self) -> float:
        return self.filtering + self.detour

    @property
    def control(self) -> float:
        """b_c (3.33)."""
        return self.leases + self.toggles

    @property
    def saved(self) -> float:
        """b (3.34): messages per second that filtering saves; below zero, flooding is the better choice.

        S1 (3.49) and (3.57) add the detour; as in (3.34), it must be subtracted.
        """
        return self.flooding - self.notifications - self.control
