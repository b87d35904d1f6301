"""Verdicts: clean, violated, or unusable, with every violation found."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

VIOLATIONS_IN_JSON_MAX = 1_000  # a broken network breaks a rule with every event; the counts stay exact


class Rule(StrEnum):
    LOST = "lost"
    DUPLICATE = "duplicate"
    SPURIOUS = "spurious"
    FIFO = "fifo"
    CAUSAL = "causal"


class Ordering(StrEnum):
    """What a network promises about the order of events."""

    NONE = "none"
    FIFO = "fifo"
    CAUSAL = "causal"

    @property
    def tolerates(self) -> frozenset[Rule]:
        """The rules that a network with this promise may break."""
        return TOLERATED[self]


TOLERATED = {
    Ordering.NONE: frozenset({Rule.FIFO, Rule.CAUSAL}),
    Ordering.FIFO: frozenset({Rule.CAUSAL}),
    Ordering.CAUSAL: frozenset[Rule](),
}


class VerdictOutcome(StrEnum):
    CLEAN = "clean"
    VIOLATED = "violated"
    UNUSABLE = "unusable"


class Violation(msgspec.Struct, frozen=True):
    """One rule broken at one client by one event.

    `index` and `at` name the record that shows it: the delivery, or, for a lost event, its publication.
    `other` is the event that the client got too early: a later one of that publisher (fifo), an effect of
    it (causal).
    """

    rule: Rule
    client: str
    event: str
    reason: str
    index: int
    at: float
    other: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: client {self.client}, event {self.event}, at {self.at:g}: {self.reason}"


class Counts(msgspec.Struct, frozen=True):
    records: int = 0
    clients: int = 0
    subscriptions: int = 0
    published: int = 0
    acknowledged: int = 0
    failed: int = 0
    deliveries: int = 0
    drains: int = 0
    suspensions: int = 0  # faults that suspend the checks for a while
    set_aside: int = 0  # breaches that fell into a suspension
    unpaired: int = 0  # acknowledgements and unsubscriptions without a request


class Verdict(msgspec.Struct, frozen=True):
    """The judgement of one run.

    `violations` break what the network promises, `tolerated` breach an order that it does not promise. `unusable`: why
    the trace, or a part of it, cannot be judged; the rest is judged.
    """

    run: str
    ordering: Ordering
    violations: tuple[Violation, ...] = ()
    tolerated: tuple[Violation, ...] = ()
    unusable: str = ""
    counts: Counts = Counts()

    @property
    def usable(self) -> bool:
        return not self.unusable

    @property
    def clean(self) -> bool:
        return self.outcome is VerdictOutcome.CLEAN

    @property
    def outcome(self) -> VerdictOutcome:
        """A violation counts even if the trace is incomplete."""
        if self.violations:
            return VerdictOutcome.VIOLATED
        return VerdictOutcome.UNUSABLE if self.unusable else VerdictOutcome.CLEAN

    def count(self, rule: Rule) -> int:
        """How often a rule was broken, whether the network promises it or not."""
        return sum(violation.rule == rule for violation in (*self.violations, *self.tolerated))

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "outcome": self.outcome.value,
            "clean": self.clean,
            "usable": self.usable,
            "unusable": self.unusable,
            "ordering": self.ordering.value,
            "found": {rule.value: self.count(rule) for rule in Rule},
            "violations": list(map(msgspec.to_builtins, self.violations[:VIOLATIONS_IN_JSON_MAX])),
            "tolerated": list(map(msgspec.to_builtins, self.tolerated[:VIOLATIONS_IN_JSON_MAX])),
            "counts": msgspec.to_builtins(self.counts),
        }
