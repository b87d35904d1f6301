"""Marks of events that travel with every message between brokers.

    heard   per publisher the highest event that a broker has received itself, or whose mark came with a message

A broker that has the mark of an event but not the event was not sent the event before that message: a broker on the
path filtered it out. So a stand-in does not send it to that neighbour either, even if the neighbour has subscribed
since: replies to it may have arrived there before (docs/protocols/healing.md). This holds for links of the tree, which
keep order; marks of other brokers do not count. Real sessions would send the difference to the last marks. Here marks
travel outside the links, without cost.
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

Came = tuple[int, list[EventId]]  # discards of this link so far, and the events that arrived


class HeardEvents:
    def __init__(self) -> None:
        self._heard: dict[Node, Marks] = defaultdict(dict)
        self._beside: dict[tuple[Node, Node], deque[tuple[Message, Marks]]] = defaultdict(deque)
        self._put_off: dict[Node, dict[Node, list[Came]]] = defaultdict(dict)  # by receiver and sender

    def of(self, broker: Node) -> list[EventId]:
        return in_order(self._heard[broker])

    def forget(self, broker: Node) -> None:
        """Forget the marks of a dead broker: its stand-in starts without any."""
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
                if discarded == broker.seam.discarded[link]:  # otherwise it was discarded
                    self._note(name, events)
        self._sends(name, before, [effect for effect in effects if isinstance(effect, Send)])

    def _note(self, broker: Node, events: Iterable[EventId]) -> None:
        for event in events:
            note(self._heard[broker], event)

    def _sends(self, node: Node, before: Marks, sends: Sequence[Send]) -> None:
        """A message carries all marks except those of later messages of the same step, which may not arrive."""
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
        """Called once with each message that has arrived."""
        under_way = self._beside[sender, receiver]
        if not any(each is message for each, _ in under_way):
            return {}
        while True:
            each, marks = under_way.popleft()  # earlier ones were lost
            if each is message:
                return marks


def _waits(broker: Broker, link: Node) -> bool:
    """Whether the messages of this link are not processed yet."""
    return broker.seam.holds(link) or is_gathering(broker)


def _is_linked(broker: Broker, sender: Node) -> bool:
    """Whether they are neighbours, or are becoming so. Marks of other brokers may overtake the events."""
    return sender in broker.router.neighbours or sender in broker.seam.peers


def _brought_by(message: Message) -> list[EventId]:
    """The events in a message."""
    match message:
        case Testimony(entries=entries, is_linked=False):
            return [entry.event.id for entry in entries if isinstance(entry, Sent)]
        case Forward(event) | Publish(event) | Deliver(event) | Marked(message=Forward(event)):
            return [event.id]
    return []
