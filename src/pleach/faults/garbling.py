"""Damage to the messages in flight on one direction of a link: lost, altered, duplicated, or forged.

Those of protocols under way, by which brokers change their tree and clients move, stay as they are, like the state of
such a protocol (damage.py): no renewal would bring them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TypeAlias, get_args

from msgspec.structs import replace

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.messages import (
    Advertise,
    Advertised,
    Along,
    Anew,
    Census,
    ClientReply,
    ClientRequest,
    Coloured,
    ColourStage,
    Deliver,
    Forward,
    Install,
    Installed,
    InTable,
    JoinTree,
    Layer,
    Message,
    Muster,
    Node,
    ParentChange,
    PubSub,
    Recolour,
    RecolourAck,
    Settle,
    Subscribe,
    Subscribed,
    Switch,
    Unsubscribe,
    Welcome,
    Whole,
    Withdraw,
)
from pleach.core.overlay.coloured.planes import COLOURS
from pleach.faults.damage import Hand

GHOST_INCARNATION = 2**31  # beyond any real client
EVIDENCE_MADE_UP = 0.4  # share of forged messages between brokers where rounds wait for evidence
GHOST_ATTRIBUTES = MappingProxyType({"ghost": 1, "price": 5, "topic": "news.ghost"})
DAMAGEABLE: frozenset[type[Message]] = frozenset(
    {
        *(*get_args(PubSub), *get_args(ClientRequest), *get_args(ClientReply)),
        *(Along, InTable, Switch, Anew, Muster, Whole),
        *(Coloured, Recolour, RecolourAck, Census, JoinTree, Welcome),
    }
)

Ghost: TypeAlias = Callable[[Node, Node, Hand], Message]


def garbled(
    messages: Sequence[Message], sender: Node, receiver: Node, hand: Hand, ghosts: Ghost, *, forges: bool = True
) -> list[Message]:
    """`hand.clients`: those of the two ends that are clients. `ghosts`: makes messages, where the fault `forges` any.

    Nothing is forged behind a message of a protocol: it may be the last one of its link.
    """
    known = next((i for i, message in enumerate(messages) if type(message) not in DAMAGEABLE), len(messages))
    passed: list[Message] = []
    for message in messages[:known]:
        passed += _struck(message, hand) if hand.strikes else [message]
    for _ in hand.some() if forges else ():
        passed.insert(hand.stream.randint(0, len(passed)), ghosts(sender, receiver, hand))
    for message in messages[known:]:
        is_struck = hand.strikes and type(message) in DAMAGEABLE
        passed += _struck(message, hand) if is_struck else [message]
    return passed


def _struck(message: Message, hand: Hand) -> list[Message]:
    match hand.stream.randrange(3), message:
        case 0, _:
            return []
        case 1, InTable():
            return [InTable(hand.stream.choice(hand.trees), hand.parity(), message.message)]
        case 1, Switch(parity):
            return [Switch(parity.other)]
        case 1, Install(layer, number, owner, _):
            return [Install(layer, number, owner, hand.stream.choice(hand.filters))]
        case 1, Withdraw(layer, owner, _):
            return [Withdraw(layer, owner, hand.stream.choice(hand.filters))]
        case 1, Installed(layer, _):
            return [Installed(layer, hand.number())]
        case 1, Coloured():
            return [replace(message, colour=hand.stream.randrange(COLOURS), message=_inner(message.message, hand))]
        case 1, Recolour():
            moves = [*message.moves, _move(hand)]
            return [replace(message, colour=hand.stream.randrange(COLOURS), moves=moves)]
        case _:
            return [message, message]


def _move(hand: Hand) -> ParentChange:
    """Any broker gets any parent, or none."""
    return ParentChange(
        hand.stream.choice(hand.brokers), hand.stream.choice(("", *hand.brokers)), hand.stream.random() < 0.2
    )


def _inner(message: PubSub, hand: Hand) -> PubSub:
    """Events are not altered: the network has no way to detect it."""
    match message:
        case Install(layer, number, owner, _):
            return Install(layer, number, owner, hand.stream.choice(hand.filters))
        case Withdraw(layer, owner, _):
            return Withdraw(layer, owner, hand.stream.choice(hand.filters))
        case _:
            return message


def ghost(sender: Node, receiver: Node, hand: Hand) -> Message:
    layer = hand.layer()
    if sender in hand.clients:
        return _request(layer, hand.stream.choice(hand.filters), hand)
    owner, wanted = hand.entry()
    event = Event(EventId("ghost", GHOST_INCARNATION, hand.stream.randrange(1, 1000)), dict(GHOST_ATTRIBUTES))
    if receiver in hand.clients:
        confirmation = Subscribed("s1") if layer is Layer.SUBSCRIPTIONS else Advertised("s1")
        return hand.stream.choice((confirmation, Deliver(event)))
    ghost = hand.stream.choice(
        (
            Install(layer, hand.number(), owner, wanted),
            Withdraw(layer, owner, wanted),
            Installed(layer, hand.number()),
            Settle(layer, hand.number()),
            Forward(event),
        )
    )
    if hand.is_paced and hand.stream.random() < EVIDENCE_MADE_UP:
        return hand.stream.choice((Whole, Muster))(hand.parity(), hand.stream.randrange(4))
    return _rebuilding_ghost(ghost, hand) if hand.trees else ghost


def _request(layer: Layer, wanted: Filter, hand: Hand) -> Message:
    if layer is Layer.ADVERTISEMENTS:
        return hand.stream.choice((Advertise("s1", wanted), Advertise("ghost", wanted)))
    return hand.stream.choice((Subscribe("s1", wanted), Subscribe("ghost", wanted), Unsubscribe("s1")))


def _rebuilding_ghost(
    ghost: Forward | Install | Withdraw | Installed | Settle, hand: Hand
) -> Along | InTable | Switch | Anew | Forward:
    """The same where tables are rebuilt in turn; or a forged round."""
    tree = hand.stream.choice(hand.trees)
    match hand.stream.randrange(4), ghost:
        case 0, _:
            return Switch(hand.parity())
        case 1, _ if tree:
            return Anew(hand.parity())
        case _, Forward():
            return Along(tree, ghost) if tree else ghost
        case _:
            return InTable(tree, hand.parity(), ghost)


def coloured_ghost(sender: Node, receiver: Node, hand: Hand) -> Message:
    plain = ghost(sender, receiver, hand)
    if not isinstance(plain, PubSub):
        return plain
    draw, forged = hand.stream, hand.stream.choice(hand.brokers)
    colour = draw.randrange(COLOURS)
    tinted = Coloured(colour, draw.choice(tuple(ColourStage)), draw.random() < 0.5, draw.randrange(9), plain)
    moves = [_move(hand)]
    others = (
        Recolour(colour, forged, draw.randrange(9), draw.random() < 0.5, moves),
        RecolourAck(),
        Census([(forged, sender)]),
        JoinTree(forged, sender, draw.randrange(9), draw.random() < 0.5),
        Welcome(colour, forged),
    )
    return draw.choice((tinted, tinted, *others))
