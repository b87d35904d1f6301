"""What a soak tells of the judge and of clients: while the run goes on, also where nothing happens any more."""

import asyncio

import pytest

from pleach.core.effects import Observe, Observed
from pleach.core.events.event import Event, EventId
from pleach.errors import ClientFencedError, PublishRefusedError, SessionLostError, UnknownOutcomeError
from pleach.harness.live_clients import LiveClients
from pleach.soak.run import GoneClients, SoakFiles, Witness
from pleach.soak.settings import SoakSettings, scenario_of

EVENT = Event(EventId("p", 1, 1), {"topic": "t"})


@pytest.fixture
def told():
    return []


@pytest.fixture
def witness(tmp_path, told):
    return Witness(SoakSettings(window=5.0, grace=20.0), SoakFiles(tmp_path), told.append)


def publish(witness, at):
    witness.observe(at, "p", Observe(Observed.PUBLISH, event=EVENT))


def test_a_judge_that_judges_no_more_is_told_at_once_and_once(witness, told):
    publish(witness, 1.0)
    publish(witness, 2.0)
    publish(witness, 3.0)
    (what,) = told
    assert "published twice" in what


def test_what_is_lost_is_told_where_nothing_happens_any_more(witness, told):
    witness.observe(0.0, "c", Observe(Observed.SUBSCRIBE, subscription="s", filter="topic = 't'"))
    witness.observe(0.0, "c", Observe(Observed.SUBSCRIBE_ACK, subscription="s"))
    publish(witness, 1.0)
    witness.observe(1.0, "p", Observe(Observed.PUBLISH_ACK, event_id=str(EVENT.id)))
    assert witness.standing(15.0).oldest == 14.0
    assert not told
    assert witness.standing(30.0).found == {"lost": 1}
    assert told[0].startswith("lost: client c")


@pytest.mark.parametrize("ends", [SessionLostError("a has forgotten p"), ClientFencedError("client 'p' is fenced")])
def test_a_publisher_that_can_publish_no_more_is_told_once(told, ends):
    async def fails(error):
        raise error

    async def scenario():
        clients = LiveClients(scenario_of(SoakSettings()), None, lambda *_: None, GoneClients(told.append))
        errors = [PublishRefusedError("p/1/1", "full"), UnknownOutcomeError("p/1/2", "full"), ends, ends]
        await asyncio.wait([clients._request(fails(error)) for error in errors])

    asyncio.run(scenario())
    (what,) = told
    assert what.endswith(str(ends))
