"""What a broker tells of its traffic and of distances; and the loop on brokers of one process."""

import asyncio
import contextlib
import sys
import time

import msgspec
import pytest

import pleach
from pleach.core.broker import Broker
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import Attach, Deliver, Forward, Publish, Subscribe
from pleach.core.messages.runs import Run, encode_event, encode_run
from pleach.core.optimise.cost import Flow
from pleach.core.optimise.prices import Prices
from pleach.core.optimise.sightings import sampled_traffic
from pleach.core.overlay.plans import Topology
from pleach.core.routing.router import RoutingConfig
from pleach.errors import InvalidInputError, SurveyError
from pleach.net.http_client import ask
from pleach.operate.improve import ImproveOptions, improve
from pleach.operate.observe import Observer, measured
from pleach.server.connections import RoleKind
from pleach.server.door.gate import Gate
from pleach.server.feature import Feature, Features
from pleach.server.metrics import Counters
from pleach.server.traffic_notes import WATCHED_SECONDS, TrafficNotes
from support.live.daemons import chain
from support.live.tiny_broker import until

COMMAND_SECONDS_MAX = 200.0
BURST = 10  # events: where each answer takes long, a look still has enough of them to say something
FROM_A_TO_C = Flow("a", frozenset("c"))


# Notes at the gate --------------------------------------------------------------------------------------------------


class FullDisk(Feature):
    is_full = False

    def refuse_publish(self):
        return "no room" if self.is_full else ""


def gate(clock=time.monotonic):
    made, notes, disk = (
        Gate(Broker("b", RoutingConfig(), neighbours=["n"]), Counters()),
        TrafficNotes(clock),
        FullDisk(),
    )
    made.install(Features([notes, disk]), lambda _: False)
    for client in ("c", "p"):
        made.handle(client, Attach(), now=0.0)
    made.handle("c", Subscribe("s", parse_filter("n > 0")), now=0.0)
    return made, notes, disk


def event(publisher, sequence, **attributes):
    return Event(EventId(publisher, 1, sequence), attributes)


def noted(notes):
    report, _ = notes.report("b", 0)
    return sorted((note.event, note.seen.value) for note in report.notes)


def test_nothing_is_noted_until_somebody_asks_nor_long_after():
    now = [0.0]
    made, notes, _ = gate(lambda: now[0])
    made.handle("p", Publish(event("p", 1, n=1)), now=0.0)
    assert noted(notes) == []
    made.handle("p", Publish(event("p", 2, n=1)), now=0.0)
    assert noted(notes) == [("p/1/2", "deliver"), ("p/1/2", "publish")]
    now[0] = WATCHED_SECONDS + 1.0
    made.handle("p", Publish(event("p", 3, n=1)), now=0.0)
    assert noted(notes) == []
    assert notes.is_on


def test_what_only_passes_through_is_not_noted_and_what_is_refused_neither():
    made, notes, disk = gate()
    notes.report("b", 0)
    made.handle("n", Forward(event("q", 1, n=0)), now=0.0)
    made.handle("n", Forward(event("q", 2, n=5)), now=0.0)
    disk.is_full = True
    made.handle("p", Publish(event("p", 1, n=5)), now=0.0)
    assert noted(notes) == [("q/1/2", "deliver")]


@pytest.mark.parametrize(
    ("kind", "sender", "seen"), [(Publish, "p", ["deliver", "publish"]), (Forward, "n", ["deliver"])]
)
def test_runs_are_noted_as_their_events_would_be(kind, sender, seen):
    events = [event("p", number, n=number % 3) for number in range(1, 10)]
    (made, notes, _), (alike, notes_alike, _) = gate(), gate()
    notes.report("b", 0)
    notes_alike.report("b", 0)
    passed = made.handle_run(sender, Run(encode_run(kind, len(events), b"".join(map(encode_event, events)))))
    assert passed is not None
    for each in events:
        alike.handle(sender, kind(each), now=0.0)
    assert noted(notes) == noted(notes_alike)
    assert sorted({what for _, what in noted(notes)}) == seen
    assert len([1 for _, what in noted(notes) if what == "deliver"]) == 6


# Brokers that run ---------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def busy_chain(directory):
    """a–b–c in two zones; a client at a publishes what one at c wants, again and again."""
    async with chain(directory) as running, contextlib.AsyncExitStack() as stack:
        reader = await stack.enter_async_context(pleach.connect(f"pleach://{running.ready['c'].client}", name="reader"))
        await reader.subscribe("n > 0", name="s", callback=lambda _event: None)
        writer = await stack.enter_async_context(pleach.connect(f"pleach://{running.ready['a'].client}", name="writer"))

        async def publish():
            while True:
                await asyncio.gather(*(writer.publish({"n": 1}) for _ in range(BURST)))
                await asyncio.sleep(0.05)

        load = asyncio.create_task(publish())
        try:
            yield running
        finally:
            load.cancel()
            await asyncio.wait([load])


def flows_of(seen):
    return {flow._replace(events=1.0) for flow in sampled_traffic(seen, 0.0, float("inf")).flows}


def admins(running):
    return [ready.admin for ready in running.ready.values()]


def test_an_observer_sees_tree_flows_and_distances(tmp_path):
    async def go():
        async with busy_chain(tmp_path) as running:
            observer = Observer(admins(running)[:1])
            first = await observer.observe()
            refused = running.node("b").counters.clients.strangers_closed
            seen = []
            async with asyncio.timeout(COMMAND_SECONDS_MAX):
                while FROM_A_TO_C not in flows_of(seen):
                    await asyncio.sleep(0.1)
                    seen += (await observer.observe()).sightings
                began, distances = time.monotonic(), {}
                while len(distances) < 3:  # who does not answer in time is left out
                    distances |= await measured(first)
                took = time.monotonic() - began
            await until(lambda: all(running.node("b").links.is_up(peer) for peer in "ac"))
            await until(lambda: not running.daemons["b"].connections.count(RoleKind.METER))
            assert running.node("b").counters.clients.strangers_closed == refused
            return first, seen, distances, took

    first, seen, distances, took = asyncio.run(go())
    assert first.tree == Topology.of([("a", "b"), ("b", "c")])
    assert flows_of(seen) <= {FROM_A_TO_C, Flow("a", frozenset())}  # the latest have not arrived yet
    assert sorted(distances) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert all(0.0 < seconds < took for seconds in distances.values())


def test_the_operators_port_says_what_it_wants(tmp_path):
    async def go():
        async with chain(tmp_path) as running:
            admin = running.ready["a"].admin
            odd = await ask(admin, "/traffic", {"after": "x"})
            nowhere = await ask(admin, "/distances", {"to": {"z": "127.0.0.1:1", "y": "no address"}})
            wrong = await ask(admin, "/distances", {"towards": {}})
            return odd, nowhere, wrong

    odd, nowhere, wrong = asyncio.run(go())
    assert (odd.code, "after (required)" in odd.value["remedy"]) == (400, True)
    assert (nowhere.code, nowhere.value) == (200, {"z": None, "y": None})
    assert (wrong.code, "to (required)" in wrong.value["remedy"]) == (400, True)


def test_a_loop_exchanges_links_of_running_brokers_and_then_rests(tmp_path):
    """From a to c there are two hops; b wants nothing, so that it moves to an end."""

    async def go():
        async with busy_chain(tmp_path) as running:
            rounds, places = [], admins(running)[:1]
            wish = ImproveOptions(every=1.5, starts=2, prices=Prices(processing=0.5))  # hops: whatever else runs here
            outcomes = []
            async with asyncio.timeout(COMMAND_SECONDS_MAX):
                while not any(each.exchanges for each in outcomes):
                    outcomes.append(await improve(places, wish, rounds_max=2, on_round=rounds.append))
                outcomes.append(await improve(places, wish, rounds_max=1, on_round=rounds.append))
            look = await Observer(admins(running)).observe()
            return outcomes, rounds, look.tree

    outcomes, rounds, tree = asyncio.run(go())
    assert [each for outcome in outcomes for each in outcome.rounds] == rounds
    assert not any(outcome.troubles for outcome in outcomes)
    assert sum(outcome.exchanges for outcome in outcomes) == 1
    assert tree.has_link("a", "c")
    (acted,) = [each for each in rounds if each.is_done]
    assert acted.cost_then < acted.cost
    assert acted.milliseconds is not None


def test_the_command_tells_what_it_would_do_and_changes_nothing(tmp_path):
    async def go():
        async with busy_chain(tmp_path) as running:
            command = ["overlay", "improve", admins(running)[0], "--once", "--every", "1500ms", "--dry-run", "--json"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "pleach", *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            said, complained = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS_MAX)
            look = await Observer(admins(running)).observe()
            return process.returncode, said, complained, look.tree

    code, said, complained, tree = asyncio.run(go())
    assert (code, complained) == (0, b"")
    (line,) = said.splitlines()
    told = msgspec.json.decode(line)
    assert (told["number"], told["dry_run"], told["is_done"], told["trouble"]) == (1, True, False, "")
    assert told["cost"] > 0.0  # as brokers have measured it
    assert tree == Topology.of([("a", "b"), ("b", "c")])


def test_a_loop_needs_brokers_that_answer_and_a_pause_that_makes_sense():
    with pytest.raises(SurveyError, match="no broker answers"):
        asyncio.run(improve(["127.0.0.1:1"], ImproveOptions(every=1.0), rounds_max=1))
    with pytest.raises(InvalidInputError, match=r"0\.5 to 30 are possible"):
        ImproveOptions(every=0.1)


def test_deliveries_to_several_clients_are_one_note():
    made, notes, _ = gate()
    made.handle("p", Subscribe("s", parse_filter("n > 0")), now=0.0)
    notes.report("b", 0)
    effects = made.handle("n", Forward(event("q", 1, n=5)), now=0.0)
    assert sum(isinstance(effect.message, Deliver) for effect in effects) == 2
    assert noted(notes) == [("q/1/1", "deliver")]
