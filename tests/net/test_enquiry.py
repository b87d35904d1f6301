"""Answers to the question where a broker is: which of them are news."""

import pytest

from pleach.net.enquiry import Whereabouts

THERE = Whereabouts(7, is_there=True, address="127.0.0.1:7001")
ELSEWHERE = Whereabouts(7, is_there=True, address="127.0.0.1:7002")
LATER = Whereabouts(8, is_there=True, address="127.0.0.1:7001")


@pytest.mark.parametrize(
    ("told", "known", "is_news"),
    [
        (THERE, None, True),
        (THERE, THERE, False),
        (ELSEWHERE, THERE, True),
        (LATER, THERE, True),
        (THERE, LATER, False),
    ],
    ids=["nothing is known", "the same", "another place", "a later view", "an earlier view"],
)
def test_what_is_news(told, known, is_news):
    assert told.is_news_to(known) is is_news
