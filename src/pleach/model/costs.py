"""What a described network costs, in messages per second; both forms of the model answer with this."""

from typing import NamedTuple


class Costs(NamedTuple):
    """Names as in S1 §3.5.3. Messages between a client and its broker are local and not counted."""

    entries: float  # x: remote routing entries that are occupied
    flooding: float  # b_f: notifications if every one goes over every link
    filtering: float  # b_n: notifications with filtering, as if all were published at the root
    detour: float  # b_p: what they cost more because they are published elsewhere and all go to the root
    leases: float  # b_l: refreshes
    toggles: float  # b_o: (un)subscriptions that brokers send on

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
