"""Random networks whose clients move under load, and everything that must hold of them.

`travels(seed)` takes a network of `upheaval(seed)` and has its clients move: one by one, at once, among faults, and
(every other seed of the last two) while links are swapped and brokers come and go. Any client moves, whatever it does:
subscribers, publishers, those that are both and answer what they see. Their subscriptions come and go meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import msgspec

from pleach.core.broker import Broker
from pleach.core.messages import Node
from pleach.scenario.model import Scenario
from pleach.scenario.steps import AddBroker, Drain, Exchange, MoveClient, RemoveBroker, Swap
from support.long_runs.output import explained, replay_command
from support.overlay.changing_trees import Manner, Setting, manner_of, setting_of, under, upheaval
from support.overlay.judgement import QUIET_KINDS, Watched, violations

MOVES_MAX = 4  # at once
VOLLEYS = 2
DELAY_MAX = 1.0  # seconds: more than any way takes
TWICE = 0.2  # the share of volleys in which one client is asked to move twice
DRAIN_AFTER = 0.375  # seconds: where moves come one by one
TREE_STEPS = (Swap, Exchange, AddBroker, RemoveBroker)


def travels(seed: int) -> Scenario:
    stream = Random(f"travels/{seed}")
    scenario = upheaval(seed)
    tree_steps = [step for step in scenario.steps if isinstance(step, TREE_STEPS)]
    moments = [step.at for step in tree_steps] or [0.3]
    others = [step for step in scenario.steps if not isinstance(step, (*TREE_STEPS, Drain))]
    moves = _moves(stream, scenario, moments, manner_of(seed))
    if manner_of(seed) is Manner.ONE_BY_ONE:
        others += [Drain(at=at + DRAIN_AFTER) for at in moments]
    elif stream.random() < 0.5:
        others += tree_steps
    steps = sorted([*others, *moves], key=lambda step: step.at)
    return msgspec.structs.replace(scenario, name=f"travels {seed}", steps=tuple(steps))


def _moves(stream: Random, scenario: Scenario, moments: list[float], manner: Manner) -> list[MoveClient]:
    """Where nothing is cut or crashes, the bound on delays may be known."""
    one_by_one, is_bounded = manner is Manner.ONE_BY_ONE, manner is not Manner.AMONG_FAULTS
    delay_max = stream.choice((0.0, DELAY_MAX)) if is_bounded else 0.0
    at_broker = {client.id: client.broker for client in scenario.clients}
    moves = []
    for moment in moments if one_by_one else sorted(stream.sample(moments, min(VOLLEYS, len(moments)))):
        count = 1 if one_by_one else stream.randint(1, MOVES_MAX)
        chosen = stream.sample(sorted(at_broker), count)
        for client in [*chosen, *(chosen[:1] if not one_by_one and stream.random() < TWICE else [])]:
            to = stream.choice([broker for broker in scenario.brokers if broker != at_broker[client]])
            at = moment if one_by_one else round(moment + stream.choice((0.0, 0.01, 0.1)) * stream.random(), 4)
            at_broker[client] = to
            moves.append(MoveClient(at=at, client=client, to=to, delay_max=delay_max))
    return moves


# What must hold ------------------------------------------------------------------------------------------------


@dataclass
class Judgement:
    """What one run came to. `flaws` says in words what does not hold; empty means that all does."""

    seed: int
    setting: Setting
    flaws: list[str] = field(default_factory=list)
    drains: int = 0
    moves: int = 0
    refusals: list[str] = field(default_factory=list)  # of moves
    published: int = 0
    deliveries: int = 0


class WatchedMoves(Watched):
    """A run in which, at every drain, each client is at one broker, and both know it."""

    def _watch(self, brokers: dict[Node, Broker]) -> None:
        super()._watch(brokers)
        at = {name: client.broker for name, client in self.run.clients.items()}
        self.flaws += misplaced(brokers, at)
        self.flaws += [f"{name} is still locked" for name in sorted(brokers) if brokers[name].operation]

    @property
    def refused_moves(self) -> list[str]:
        return [f"{r.at:g}: {r.reason}" for r in self.run.refusals if r.step == "move_client"]


def misplaced(brokers: dict[Node, Broker], at: dict[Node, Node]) -> list[str]:
    """S4 §3.3, atomicity: after the transaction a client is at its source or at its target, not at both or neither."""
    flaws = []
    for client, broker in sorted(at.items()):
        known = [name for name in sorted(brokers) if client in brokers[name].sessions]
        if known != [broker]:
            flaws.append(f"{client} goes to {broker}, and is known to {known}")
    return flaws


def judge_travels(seed: int, setting: Setting | None = None) -> Judgement:
    setting = setting or setting_of(seed)
    scenario = under(travels(seed), setting)
    watched = WatchedMoves(scenario, seed, QUIET_KINDS)
    verdict = watched.finish()
    judgement = Judgement(seed, setting, [*watched.flaws, *violations(verdict)], watched.drains)
    judgement.moves = sum(isinstance(step, MoveClient) for step in scenario.steps)
    judgement.refusals = watched.refused_moves
    if manner_of(seed) is Manner.ONE_BY_ONE:
        judgement.flaws += [f"refused though nothing else was under way: {reason}" for reason in judgement.refusals]
    judgement.published, judgement.deliveries = verdict.counts.published, verdict.counts.deliveries
    return judgement


def replay(judgement: Judgement) -> str:
    seed, setting = judgement.seed, judgement.setting
    only = ["--only", setting.name] if setting != setting_of(seed) else []
    return explained(replay_command("mobility", seed, *only), judgement.flaws, where=setting.name)
