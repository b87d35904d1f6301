"""What each broker has heard of: beside every message of a broker goes what its sender has taken in or heard of.

    heard   per publisher the highest event that a broker has taken in itself, or that came beside a message

Who has heard of an event and does not have it was not sent it before the message beside which it heard of it: at some
broker on the way it was not wanted. So a stand-in does not send it to that neighbour either, whatever the neighbour has
asked for since: answers to it may have come there before (docs/protocols/healing.md). This holds for what comes over
links of the tree, in order; what a stranger has heard of does not count. Real sessions would send the
difference to what they sent last. Here it travels beside the links, and costs no bytes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send
from pleach.core.events.event import EventId
from pleach.core.messages import Deliver, Forward, Marked, Message, Node, Publish, Sent, Testimony
from pleach.core.overlay.healing.journal import Marks, in_order, note
from pleach.sim.dead_positions import is_gathering

Came = tuple[int, list[EventId]]  # how often something of this link had been discarded, and what came


class HeardEvents:
    def __init__(self) -> None:
        self._heard: dict[Node, Marks] = defaultdict(dict)
        self._beside: dict[tuple[Node, Node], deque[tuple[Message, Marks]]] = defaultdict(deque)
        self._put_off: dict[Node, dict[Node, list[Came]]] = defaultdict(dict)  # by receiver and sender: it waits

    def of(self, broker: Node) -> list[EventId]:
        return in_order(self._heard[broker])

    def forget(self, broker: Node) -> None:
        """It is dead: its stand-in has heard of nothing."""
        self._heard.pop(broker, None)
        self._put_off.pop(broker, None)

    def handled(self, broker: Broker, sender: Node, message: Message, effects: Sequence[Effect]) -> None:
        """A broker has handled a message; the effects are not carried out yet."""
        name = broker.name
        beside = self.came_beside(sender, name, message)
        came = [*(beside.values() if _is_linked(broker, sender) else ()), *_brought_by(message)]
        self._put_off[name].setdefault(sender, []).append((broker.seam.discarded[sender], came))
        before = dict(self._heard[name])
        for link in [link for link in self._put_off[name] if not _waits(broker, link)]:
            for discarded, events in self._put_off[name].pop(link):
                if discarded == broker.seam.discarded[link]:  # else it was never taken in
                    self._note(name, events)
        self._sends(name, before, [effect for effect in effects if isinstance(effect, Send)])

    def _note(self, broker: Node, events: Iterable[EventId]) -> None:
        for event in events:
            note(self._heard[broker], event)

    def _sends(self, node: Node, before: Marks, sends: Sequence[Send]) -> None:
        """Beside a message goes all but what others bring that follow it in the same step: they may never arrive."""
        after = dict(self._heard[node])
        coming: defaultdict[Node, dict[str, None]] = defaultdict(dict)
        departures = []
        for send in reversed(sends):
            later = coming[send.to]
            unbrought = {publisher: before[publisher] for publisher in later if publisher in before}
            beside = {p: event for p, event in after.items() if p not in later} | unbrought if later else after
            departures.append((send, beside))
            later.update((event.publisher, None) for event in _brought_by(send.message))
        for send, beside in reversed(departures):
            self._beside[node, send.to].append((send.message, beside))

    def came_beside(self, sender: Node, receiver: Node, message: Message) -> Marks:
        """To be called once with each message that has arrived."""
        under_way = self._beside[sender, receiver]
        if not any(each is message for each, _ in under_way):
            return {}
        while True:
            each, marks = under_way.popleft()  # what lies before it has not arrived, and never will
            if each is message:
                return marks


def _waits(broker: Broker, link: Node) -> bool:
    """Whether what came over this link is not taken in yet."""
    return broker.seam.holds(link) or is_gathering(broker)


def _is_linked(broker: Broker, sender: Node) -> bool:
    """Whether they are neighbours, or about to be. What a stranger says may overtake what it has heard of."""
    return sender in broker.router.neighbours or sender in broker.seam.peers


def _brought_by(message: Message) -> list[EventId]:
    """The events that a message brings."""
    match message:
        case Testimony(entries=entries, is_linked=False):
            return [entry.event.id for entry in entries if isinstance(entry, Sent)]
        case Forward(event) | Publish(event) | Deliver(event) | Marked(message=Forward(event)):
            return [event.id]
    return []
