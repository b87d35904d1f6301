"""Small networks with costs and flows, drawn from a seed."""

from itertools import combinations
from random import Random

from pleach.core.optimise.cost import Costs, Flow, delivery_tree
from pleach.core.optimise.ledger import LOCAL
from pleach.core.overlay.plans.topology import Topology, link

# S1 §5.4.3: the figure is lost; these satisfy its three totals.
EXAMPLE = Costs({"B1": 5.0, "B2": 1.0, "B3": 2.0}, {("B1", "B2"): 3.0, ("B1", "B3"): 1.0, ("B2", "B3"): 4.0})
EXAMPLE_FLOWS = [
    Flow("B2", frozenset({"B3"}), 5),
    Flow("B2", frozenset({"B1", "B3"}), 5),
    Flow("B1", frozenset({"B2"}), 1),
]


def names(count):
    return [f"b{i}" for i in range(count)]


def drawn_costs(draw: Random, count: int) -> Costs:
    """Links cost what their ends are apart in a plane."""
    places = {name: complex(draw.random(), draw.random()) for name in names(count)}
    return Costs(
        {name: draw.uniform(0, 10) for name in places},
        {link(a, b): 7 * abs(places[a] - places[b]) for a, b in combinations(places, 2)},
    )


def drawn_flows(draw: Random, count: int, flows: int, members: int = 4) -> list[Flow]:
    found = []
    for _ in range(flows):
        publisher, *subscribers = draw.sample(names(count), draw.randint(2, members))
        found.append(Flow(publisher, frozenset(subscribers), float(draw.randint(1, 9))))
    return found


def drawn_tree(draw: Random, count: int) -> Topology:
    everyone = names(count)
    draw.shuffle(everyone)
    return Topology.of((draw.choice(everyone[:i]), everyone[i]) for i in range(1, count))


def draws(stream):
    """As a search wants them."""
    draw = Random(stream)
    while True:
        yield draw.random()


def kept(tree, events):
    """The ledgers that brokers would have: where each event came from and went to."""
    ledgers = {broker: {} for broker in tree.brokers}
    for event, flow in events.items():
        for a, b in delivery_tree(tree, flow).links:
            ledgers[a].setdefault(event, set()).add(b)
            ledgers[b].setdefault(event, set()).add(a)
        for broker in flow.members:
            ledgers[broker].setdefault(event, set()).add(LOCAL)
    return {broker: {e: frozenset(s) for e, s in ledger.items()} for broker, ledger in ledgers.items()}
