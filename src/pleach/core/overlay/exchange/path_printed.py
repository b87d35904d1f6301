"""The reconfiguration path with one step as S2 prints it, which fails: for comparisons, not for use.

S2 §4.3.2: when RECMSG comes over the new link, v sends an unsubscription for each subscription that P_add has and its
table has not; at the end it compares the copy of P_add that it kept with its table, and sends the subscriptions that
the copy lacks. A subscription that ends before the message comes and begins again after it is in both: the other side
has removed it from its tables, and is never told of the new one. In path.py v does both at the end.

S2 §2 forwards equal patterns once, and has no advertisements. With `covering`, or with advertisements, this variant
fails for a second reason, which is not in S2: v's table lacks filters that others of its side cover, and those that
match no advertisement of the other side.
"""

from __future__ import annotations

from pleach.core.effects import Effect, Send
from pleach.core.messages import Layer, Reconfigure, Withdraw
from pleach.core.overlay.exchange.path import Path
from pleach.core.routing.rewiring import unpacked


class PathPrinted(Path):
    def _on_tail(self, message: Reconfigure) -> list[Effect]:
        at_once = self._withdrawn_at_once() if self.name == self.cycle.v else []
        return [*at_once, *super()._on_tail(message)]

    def _withdrawn_at_once(self) -> list[Effect]:
        router, u, add = self._context.router, self.cycle.u, unpacked(self.state.add)
        return [
            Send(u, Withdraw(layer, entry.owner, entry.filter))
            for layer in Layer
            for entry in sorted(add[layer] - router.reduced(router.entries_but_from(layer, (u,))))
        ]  # reduced, as P_add is: entries of v's own clients have owners that told ones need not have
