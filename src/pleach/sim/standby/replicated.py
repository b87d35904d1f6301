"""A broker that is replicated, as the rest of the network sees it: one name, one history, one process to talk to.

Two processes of one broker may run for a while: the old primary is cut off and does not know of the new view. Nodes
that only the old one can reach stay with it (`left_with`), and what they send to it is never confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pleach.core.effects import Effect, Send
from pleach.core.messages import Message, Node
from pleach.scenario.machines import BrokerTree, make_machine
from pleach.sim.standby.history import Commit, History
from pleach.sim.standby.running import RunningBroker

if TYPE_CHECKING:
    from pleach.sim.standby.standbys import Standbys


class ReplicatedBroker:
    def __init__(self, name: Node, standbys: Standbys, tree: BrokerTree) -> None:
        """`tree`: as its settings say."""
        self.name = name
        self.standbys = standbys
        self.history = History(lambda: make_machine(standbys.scenario, tree, name))
        self.current: RunningBroker | None = None  # the last that served, while it runs
        self.left_with: dict[Node, RunningBroker] = {}
        self.place = ""  # the machine where it ran last
        self.is_done = False  # it has left, and nobody waits for it or it for anybody
        self.is_dissolved = False  # and its members have forgotten it

    def contact_of(self, peer: Node) -> RunningBroker | None:
        """The process that a node is connected to."""
        return self.left_with.get(peer) or self.current

    def place_for(self, peer: Node) -> str:
        contact = self.contact_of(peer)
        return contact.host.name if contact else self.place

    # As a machine of the simulator -----------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        contact = self.contact_of(sender)
        if contact is not None:
            contact.receive(sender, message, now)  # type: ignore[arg-type] # messages are numbered
        return ()

    def perform(self, effects: Sequence[Effect]) -> None:
        """Effects that come from no input of the broker: of faults."""
        if self.current is not None:
            self.current.commit(effects)

    # Commits -------------------------------------------------------------------------------------------------

    def carry_out(self, commit: Commit, running: RunningBroker) -> None:
        if not self.history.perform(commit):
            return
        standbys = self.standbys
        if commit.received:
            standbys.sessions.confirm(commit.sender, self.name, commit.received)
        for number, effect in commit.effects:
            if isinstance(effect, Send):
                standbys.sim.transmit(self.name, number, effect, is_connected=self._is_contact(running, effect.to))
            else:
                standbys.sim.perform_other(self.name, effect)

    def _is_contact(self, running: RunningBroker, peer: Node) -> bool:
        return self.contact_of(peer) is running

    # Processes -----------------------------------------------------------------------------------------------

    def serve(self, running: RunningBroker) -> None:
        """Nodes connect to this process, where there is a way; others stay with the one that they have."""
        former, self.current, self.place = self.current, running, running.host.name
        ways = self.standbys.ways
        for peer in self.standbys.peers_of(self.name):
            if former is not None and not ways.is_open(self.standbys.place_of(peer, self.name), self.place):
                self.left_with.setdefault(peer, former)

    def stopped(self, running: RunningBroker) -> None:
        if self.current is running:
            self.current = None
        for peer in [peer for peer, contact in self.left_with.items() if contact is running]:
            del self.left_with[peer]

    def find_back(self) -> list[Node]:
        """The nodes that find the new process now that there is a way."""
        if self.current is None:
            return []
        ways, here = self.standbys.ways, self.current.host.name
        found = [peer for peer in self.left_with if ways.is_open(self.standbys.place_of(peer, self.name), here)]
        for peer in found:
            del self.left_with[peer]
        return found
