"""Signals to a broker process that is ending already, by itself or as it was asked to."""

import asyncio
import os

import pytest

from pleach.server.daemon import EXIT_FORCED, Daemon
from pleach.server.settings import BrokerSettings


@pytest.fixture
def forced(monkeypatch):
    """With which codes the process was ended at once."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.mark.parametrize("ends_by_itself", [False, True])
def test_only_a_second_signal_ends_a_process_at_once(forced, ends_by_itself):
    async def story():
        daemon = Daemon(BrokerSettings("b"), reload=BrokerSettings, on_ready=lambda _: None)
        if ends_by_itself:
            daemon._end(0, "its removal is complete")
        assert not daemon.is_stopped
        daemon._asked_to_stop()
        assert daemon.is_stopped
        assert daemon._stop.is_set()
        assert not forced
        daemon._asked_to_stop()
        assert forced == [EXIT_FORCED]

    asyncio.run(story())
