"""Councillors without brokers: a tree of them, messages that arrive at once, and events that go where they should."""

from dataclasses import dataclass, field

from pleach.core.optimise.cost import Costs, DeliveryTree, Flow, delivery_tree
from pleach.core.optimise.council import Councillor
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.ledger import LOCAL
from pleach.core.overlay.choice import Circumstances
from pleach.core.overlay.plans.topology import Topology

EVERY = 2.0
CAUSAL = Circumstances("causal")


@dataclass
class FixedGround:
    """What it costs is given; `unknown`: whom nobody has measured yet."""

    name: str
    neighbours: set[str]
    costs: Costs
    is_busy: bool = False
    address: str = "somewhere:1"
    unknown: set[str] = field(default_factory=set)

    @property
    def processing(self):
        return self.costs.processing[self.name]

    def reach(self, broker, *, is_linked):
        return None if broker in self.unknown else self.costs.of_link(self.name, broker)


class Assembly:
    def __init__(self, tree: Topology, costs: Costs, conduct=None, where=CAUSAL):
        self.tree = tree
        conduct = conduct or CouncilSettings(every=EVERY, window=10 * EVERY)
        self.grounds = {b: FixedGround(b, {*tree.around[b]}, costs) for b in tree.brokers}
        self.councillors = {
            b: Councillor(b, self.grounds[b], conduct, now=0.0, where=where, fresh_name=lambda: "op")
            for b in tree.brokers
        }
        self.said = []  # (from, to, message)
        self.turns = []  # those that judged

    def publish(self, flow: Flow, numbers, at):
        """Events of the flow go their ways, and everyone on them takes notes."""
        way: DeliveryTree = delivery_tree(self.tree, flow)
        ids = [("p-" + flow.publisher + "".join(sorted(flow.subscribers)), 0, n) for n in numbers]
        for broker in sorted(way.brokers):
            book = self.councillors[broker].book
            for a, b in sorted(way.links):
                if broker in (a, b):
                    book.note(ids, b if broker == a else a, at)
            if broker in flow.members:
                book.note(ids, LOCAL, at)

    def round(self, now, brokers=None):
        """Bulletins of these, or of all, and what follows."""
        waiting = [
            (name, send) for name in brokers or sorted(self.councillors) for send in self.councillors[name].tick(now)
        ]
        while waiting:
            sender, (to, message) = waiting[0][0], (waiting[0][1].to, waiting[0][1].message)
            waiting.pop(0)
            self.said.append((sender, to, message))
            turn = self.councillors[to].handle(sender, message, now=now)
            if turn.judgement is not None:
                self.turns.append(turn)
            waiting += [(to, send) for send in turn.sends]
