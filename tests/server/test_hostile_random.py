"""Sessions drawn by lot against chains of real brokers; `python tests/long_run.py hostile` has thousands of them."""

import pytest

from support.live import hostile_random
from support.thorough import FACTOR

SESSIONS = 60


@pytest.mark.parametrize("kind", hostile_random.KINDS)
def test_no_session_harms_a_broker_or_an_honest_client(kind, tmp_path):
    verdict = hostile_random.run(kind, SESSIONS * FACTOR, 1, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)
    assert verdict.sessions == SESSIONS * FACTOR
