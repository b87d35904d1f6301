"""The reconfiguration path with one step of it as S2 prints it, which fails: to compare with, not to use.

S2 §4.3.2: when RECMSG comes over the new link, v sends an unsubscription for each subscription that P_add has and its
table has not; at the end it compares the copy of P_add that it kept with its table, and sends the subscriptions that
the copy lacks. Who unsubscribes before the message comes and subscribes again after it is in both: the other side has
taken the subscription out of its tables, and is never told of the new one. In path.py v does both at the end.

S2 §2 tells equal patterns once, and knows no advertisements. With `covering`, or with advertisements, this fails for a
second reason, for which S2 is not to blame: v's table has not what filters of the other side cover on the way to it,
nor what nobody there advertises.
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
        router, u, add = self._context.router, self.cycle.u, unpacked(self.ends.add)
        return [
            Send(u, Withdraw(layer, entry.owner, entry.filter))
            for layer in Layer
            for entry in sorted(add[layer] - router.reduced(router.entries_but_from(layer, (u,))))
        ]  # reduced, as P_add is: entries of v's own clients have owners that told ones need not have
