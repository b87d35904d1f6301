"""What a broker could testify of each neighbour, should that one die for good: the journal of a link (the idea is in
core/overlay/healing/journal.py), made of outbox and sightings.

    outbox      4: Forward e1   5: Install …   6: Forward e3            what the neighbour has not confirmed, numbered
    sightings   e0 after 0      e2 after 5                              what came from it, and behind which number
    journal     e0 │ Sent(e1) Got(e2) Sent(e3)

Rule 1: per publisher the highest event counts, since a publisher's events come over a link in rising order.
Rule 2: once all up to a number is confirmed, what came behind it is a mark (`after` 0).
Rule 3: sightings are committed in one batch with the progress of their link, so that a crash loses both or none.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from pleach.core.events.event import EventId
from pleach.core.links.batch import Batch, PublisherMark, PublisherMarks
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.session import Numbered
from pleach.core.messages import Bereaved, Forward, Got, JournalEntry, Message, Node, Sent
from pleach.core.messages.runs import Run, decode_all
from pleach.core.overlay.healing.journal import Marks, covers, in_order, note
from pleach.server.feature import Feature
from pleach.server.metrics import HealCounters

log = logging.getLogger(__name__)


class DeathWitness(Feature):
    def __init__(
        self,
        endpoint: Endpoint,
        counters: HealCounters,
        known: Iterable[PublisherMark] = (),
        *,
        is_client: Callable[[Node], bool] = lambda _: False,
    ) -> None:
        self._endpoint = endpoint
        self._is_client = is_client
        endpoint.testify = self.testify
        self._counters = counters
        self._highest: defaultdict[Node, Marks] = defaultdict(dict)
        self._marks: defaultdict[Node, Marks] = defaultdict(dict)
        self._behind: defaultdict[Node, dict[tuple[int, str], EventId]] = defaultdict(dict)  # by (after, publisher)
        self._new: dict[tuple[Node, str, int], EventId] = {}
        for peer, publisher, after, incarnation, sequence in known:
            self._note(peer, EventId(publisher, incarnation, sequence), after)

    def _note(self, peer: Node, event: EventId, after: int) -> None:
        note(self._highest[peer], event)
        if after:
            self._behind[peer][after, event.publisher] = event
        else:
            note(self._marks[peer], event)

    def message_received(self, sender: Node, message: Message) -> None:
        if isinstance(message, Forward) and not self._is_client(sender):
            self.got(sender, [message.event.id])

    def run_received(self, sender: Node, run: Run) -> None:
        if run.kind is Forward and not self._is_client(sender):  # ids of other runs are not validated
            self.got(sender, [EventId(*glimpse.id) for glimpse in run.glimpses()])

    def annotate(self, batch: Batch) -> Batch:
        return batch._replace(sightings=self.news())

    def got(self, peer: Node, events: Iterable[EventId]) -> None:
        """Events have come from a neighbour. What is known already comes from the journal of a former process."""
        session = self._endpoint.sessions.get(peer)
        if session is None:
            return
        last = self._endpoint.said(peer)
        after = last if last >= session.first else 0
        for event in events:
            if not covers(self._highest[peer], event):
                self._note(peer, event, after)
                self._new[peer, event.publisher, after] = event

    def news(self) -> PublisherMarks:
        """What has changed since the last call."""
        settled = [(peer, first) for peer in sorted(self._behind) if (first := self._settle(peer))]
        seen = [PublisherMark(*key, event.incarnation, event.sequence) for key, event in self._new.items()]
        self._new = {}
        return PublisherMarks(tuple(seen), tuple(settled))

    def _settle(self, peer: Node, upto: int | None = None) -> int:
        """Make marks of what came behind numbers that are confirmed now; returns below which, if there was any."""
        first = self._endpoint.sessions[peer].first if upto is None else upto
        behind = self._behind[peer]
        over = [key for key in behind if key[0] < first]
        for after, publisher in over:
            event = behind.pop((after, publisher))
            self._new.pop((peer, publisher, after), None)
            note(self._marks[peer], event)
            self._new[peer, publisher, 0] = self._marks[peer][publisher]
        if not behind:
            del self._behind[peer]
        return first if over else 0

    def testify(self, peer: Node, unheard: Sequence[Numbered]) -> Bereaved:
        """The journal of the link to a neighbour that has a stand-in now; the stand-in answers for it from here on."""
        self._settle(peer, unheard[0][0] if unheard else None)
        marks = in_order(self._marks[peer])
        behind: defaultdict[int, list[JournalEntry]] = defaultdict(list)
        for (after, _), event in sorted(self._behind[peer].items()):
            behind[after].append(Got(event))
        entries: list[JournalEntry] = []
        for number, payload in unheard:
            entries += [Sent(message.event) for message in decode_all(payload) if isinstance(message, Forward)]
            entries += behind[number]
        self._counters.bereavements += 1
        log.info("%s has a stand-in; what it had not confirmed: %d events", peer, sum(map(_is_sent, entries)))
        for entry in entries:
            if isinstance(entry, Sent):
                log.debug("still has it: %s for %s", entry.event.id, peer)
        return Bereaved(peer, marks, entries)


def _is_sent(entry: JournalEntry) -> bool:
    return isinstance(entry, Sent)
