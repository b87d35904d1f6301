"""Where a client looks for its broker: where it was told that the broker is, and at other brokers that may know more.

Rule 1: a machine that is lost does not even refuse. Where there are other addresses to try, none is waited for longer
        than ATTEMPT_SECONDS_MIN at first, and twice as long each time that it did not answer.
Rule 2: those that did not answer in time come last, until the broker has answered somewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from pleach.errors import AddressError
from pleach.net.addresses import ADDRESSES_MAX, Address, parse_addresses

ATTEMPT_SECONDS_MIN, ATTEMPT_SECONDS_MAX = 2.0, 10.0  # to reach one address and to be greeted there

log = logging.getLogger(__name__)


class BrokerPlaces:
    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)
        self._fallbacks: tuple[Address, ...] = ()  # of other brokers
        self._mute: dict[Address, float] = {}  # that did not answer in time, and how long they are waited for next

    @property
    def all(self) -> list[Address]:
        """In the order in which they are tried."""
        known = [*dict.fromkeys((*self.addresses, *self._fallbacks))]
        return sorted(known, key=lambda each: each in self._mute)

    def told(self, addresses: Sequence[Address]) -> None:
        """The broker is said to be there: this is tried first."""
        self.addresses = tuple(dict.fromkeys((*addresses, *self.addresses)))[:ADDRESSES_MAX]
        for address in addresses:
            self._mute.pop(address, None)

    def fall_back_on(self, texts: Iterable[str]) -> None:
        """Our broker has told where other brokers are."""
        self._fallbacks = tuple(address for text in texts for address in read_told(text))[:ADDRESSES_MAX]

    def seconds_for(self, address: Address) -> float:
        """How long an attempt may take."""
        is_only_one = len({*self.addresses, *self._fallbacks}) == 1
        return ATTEMPT_SECONDS_MAX if is_only_one else self._mute.get(address, ATTEMPT_SECONDS_MIN)

    def timed_out(self, address: Address) -> None:
        self._mute[address] = min(2 * self.seconds_for(address), ATTEMPT_SECONDS_MAX)

    def answered(self) -> None:
        """The broker is found."""
        self._mute.clear()


def read_told(text: str) -> tuple[Address, ...]:
    """Addresses as a broker tells them; none where they are unreadable."""
    try:
        return parse_addresses(text) if text else ()
    except AddressError as error:
        log.warning("%s", error)
        return ()
