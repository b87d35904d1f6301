"""Small scenarios for the explorer: chains of brokers with few clients and few actions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pleach.scenario import Scenario, parse_scenario


@dataclass(frozen=True)
class Chain:
    """`clients` and `steps` are TOML tables without their headers; steps happen in the order given."""

    brokers: str = "abc"
    routing: str = "covering"
    hierarchical: bool = False  # with the middle broker as the root
    advertisements: bool = False
    ordering: str = "causal"
    clients: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def but(self, **changes: object) -> Chain:
        return replace(self, **changes)

    def scenario(self) -> Scenario:
        links = [[x, y] for x, y in zip(self.brokers, self.brokers[1:], strict=False)]
        head = (
            f"name = 'a chain'\nduration = 100.0\nrouting = '{self.routing}'\nordering = '{self.ordering}'\n"
            f"hierarchical = {str(self.hierarchical).lower()}\nadvertisements = {str(self.advertisements).lower()}\n"
            f"brokers = {list(self.brokers)}\nlinks = {links}\nroot = '{self.brokers[len(self.brokers) // 2]}'\n"
        )
        clients = "".join(f"[[clients]]\n{table}\n" for table in self.clients)
        steps = "".join(f"[[steps]]\nat = {n}.0\n{table}\n" for n, table in enumerate(self.steps, start=1))
        return parse_scenario(head + clients + steps)


def client(name: str, broker: str, *wanted: str) -> str:
    return f"id = '{name}'\nbroker = '{broker}'\nsubscribe = {list(wanted)}"


def publish(name: str, price: int) -> str:
    return f"do = 'publish'\nclient = '{name}'\nattributes = {{ price = {price} }}"


def subscribe(name: str, text: str) -> str:
    return f"do = 'subscribe'\nclient = '{name}'\nfilter = '{text}'"


def unsubscribe(name: str, text: str) -> str:
    return f"do = 'unsubscribe'\nclient = '{name}'\nfilter = '{text}'"


def advertise(name: str, text: str) -> str:
    return f"do = 'advertise'\nclient = '{name}'\nfilter = '{text}'"


def unadvertise(name: str, text: str) -> str:
    return f"do = 'unadvertise'\nclient = '{name}'\nfilter = '{text}'"


def crash(broker: str) -> str:
    return f"do = 'crash'\nbroker = '{broker}'"


def restart(broker: str) -> str:
    return f"do = 'restart'\nbroker = '{broker}'"


# A subscription, an unsubscription of a wide filter that hides a narrow one, and two events.
CHURN = Chain(
    clients=(client("p", "a"), client("s", "c", "price > 50", "price > 10"), client("t", "c")),
    steps=(publish("p", 60), subscribe("t", "price > 20"), unsubscribe("s", "price > 10"), publish("p", 70)),
)
# The same without the subscription.
WITHDRAWAL = CHURN.but(clients=CHURN.clients[:2], steps=(CHURN.steps[0], CHURN.steps[2], CHURN.steps[3]))
# One event meets one new subscription.
SUBSCRIPTION = Chain(
    clients=(client("p", "a"), client("s", "c")), steps=(subscribe("s", "price > 50"), publish("p", 60))
)
# Advertisements come and go while a subscription travels. The client says itself what it advertises at first.
ADVERTISING = Chain(
    advertisements=True,
    clients=(client("p", "a") + "\nadvertise = ['price > 65']", client("s", "c", "price > 50"), client("t", "c")),
    steps=(
        advertise("p", "price > 0"),
        publish("p", 60),
        subscribe("t", "price > 20"),
        unadvertise("p", "price > 0"),
    ),
)
# A question at one end, an answer from the middle, and one who sees both at the other end.
ANSWERING = Chain(
    clients=(
        client("p", "a"),
        client("q", "b", "price > 50") + "\nreply = { to = 'price > 50', with = { answer = { sequence = true } } }",
        client("s", "c", "price > 50", "answer > 0"),
    ),
    steps=(publish("p", 60), publish("p", 70)),
)
# One event meets the end of the only subscription.
RESTLESS = Chain(
    brokers="ab",
    clients=(client("p", "a"), client("s", "b", "price > 10")),
    steps=(publish("p", 60), unsubscribe("s", "price > 10")),
)
# Small enough to walk through every schedule without remembering states.
TINY = Chain(
    brokers="ab",
    clients=(client("p", "a"), client("s", "b", "price > 50", "price > 10")),
    steps=(publish("p", 60), unsubscribe("s", "price > 10")),
)
