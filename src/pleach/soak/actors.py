"""How each action is done to real processes, and undone.

An action ends with an outcome: `done`, why the network refused it, which is no fault, or that a process failed, which
is one. That nothing was lost is for the judge to say, and that the network becomes whole again for `Settle`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from itertools import product
from typing import assert_never

from pleach.core.messages import Node
from pleach.errors import LiveError, PleachError
from pleach.harness.live_clients import LiveClients
from pleach.harness.network import LiveNetwork
from pleach.harness.switch import Link
from pleach.harness.timeline import LiveOperations
from pleach.net.http_client import ask
from pleach.operate.broker_move import move_broker
from pleach.operate.survey import survey
from pleach.scenario import steps
from pleach.scenario.stabilise_settings import fault_detail
from pleach.soak import actions
from pleach.soak.actions import Action
from pleach.soak.load import SoakLoad
from pleach.soak.whole import until_whole

DONE, FAILED = "done", "failed"
MOVE_SECONDS_MAX = 60.0
COVERED_SECONDS_MAX = 60.0
WHOLE_SECONDS_MAX = 240.0
LEFT_SECONDS_MAX = 180.0
POLL_SECONDS = 0.25


class Actors:
    """`fault`: tells the judge of damage to a broker's state, before it is done."""

    def __init__(
        self,
        network: LiveNetwork,
        clients: LiveClients,
        load: SoakLoad,
        fault: Callable[[Node, str], None],
    ) -> None:
        self._network = network
        self._clients = clients
        self._load = load
        self._fault = fault
        self._refusals: dict[int, str] = {}  # by the step's identity
        self._operations = LiveOperations(network, self._refuse, lambda _broker, _detail: None)

    async def carry_out(self, action: Action) -> str:
        """To its end; returns the outcome."""
        try:
            return await self._carried_out(action)
        except LiveError as error:
            return f"{FAILED}: {error}"
        except (PleachError, TimeoutError, OSError) as error:
            return f"refused: {type(error).__name__}: {error}"

    async def _carried_out(self, action: Action) -> str:
        match action:
            case actions.Swap() | actions.Exchange() | actions.MoveClient():
                return await self._tree_step(action)
            case actions.Join(broker=broker, to=to):
                return await self._join(broker, to)
            case actions.Leave(broker=broker):
                return await self._leave(broker)
            case actions.Storm() | actions.Traffic():
                return await self._disturb(action)
            case actions.Settle():
                reasons = await until_whole(self._network, self._clients, seconds_max=WHOLE_SECONDS_MAX)
                return f"not whole: {'; '.join(reasons)}" if reasons else DONE
            case (
                actions.Kill()
                | actions.PowerCut()
                | actions.Upgrade()
                | actions.Destroy()
                | actions.Stop()
                | actions.MoveBroker()
            ):
                return await self._to_machine(action)
            case actions.FullDisk() | actions.SlowDisk() | actions.Damage():
                return await self._to_state(action)
            case actions.Cut() | actions.Flap() | actions.Partition() | actions.Loss() | actions.Slow():
                return await self._to_links(action)
            case _:
                assert_never(action)

    # The tree

    def _refuse(self, step: steps.Step, reason: str) -> None:
        self._refusals[id(step)] = reason

    async def _tree_step(self, action: actions.Swap | actions.Exchange | actions.MoveClient) -> str:
        match action:
            case actions.Swap(brokers=brokers):
                return await self._step(steps.Swap(at=0.0, brokers=brokers))
            case actions.Exchange(remove=remove, add=add):
                return await self._step(steps.Exchange(at=0.0, remove=remove, add=add))
            case actions.MoveClient(client=client, to=to):
                return await self._step(steps.MoveClient(at=0.0, client=client, to=to))

    async def _step(self, step: steps.Step) -> str:
        match step:
            case steps.MoveClient():
                await self._operations.move(step)
            case steps.Swap() | steps.Exchange() | steps.AddBroker() | steps.RemoveBroker():
                await self._operations.carry_out(step)
            case _:
                raise AssertionError(step)
        reason = self._refusals.pop(id(step), "")
        return f"refused: {reason}" if reason else DONE

    async def _join(self, broker: Node, to: Node) -> str:
        """A machine whose broker could not join goes again."""
        outcome = await self._step(steps.AddBroker(at=0.0, broker=broker, to=to))
        is_member = broker in self._network.members
        if outcome != DONE and not is_member and self._network.has_machine(broker):
            await self._network.destroy(broker)
        return outcome

    async def _leave(self, broker: Node) -> str:
        """Its machine goes with it, unless the broker ran elsewhere: then it still has copies of others."""
        home = self._network.home_of(broker)
        try:
            outcome = await self._step(steps.RemoveBroker(at=0.0, broker=broker))
        except TimeoutError:  # others take its copies first
            await self._until_it_has_left(broker, home)
            outcome = DONE
        if outcome == DONE and home == broker and self._network.has_machine(broker):
            await self._network.destroy(broker)
        return outcome

    async def _until_it_has_left(self, broker: Node, home: Node) -> None:
        machine = self._network.machines[home]
        async with asyncio.timeout(LEFT_SECONDS_MAX):
            while machine.is_running if home == broker else await self._network.answers(broker):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
        self._network.drop(broker)

    # Clients

    async def _disturb(self, action: actions.Storm | actions.Traffic) -> str:
        match action:
            case actions.Traffic(factors=factors):
                self._load.change(factors)
            case actions.Storm(client=client, filters=filters, seconds=seconds):
                for text in filters:
                    self._clients.subscribe(client, text)
                await asyncio.sleep(seconds)
                for text in filters:
                    self._clients.unsubscribe(client, text)
        return DONE

    # Machines

    async def _to_machine(
        self,
        action: actions.Kill | actions.PowerCut | actions.Upgrade | actions.Destroy | actions.Stop | actions.MoveBroker,
    ) -> str:
        network = self._network
        match action:
            case actions.Kill(broker=broker, seconds=seconds):
                return await self._kill(broker, seconds)
            case actions.PowerCut(machine=machine, seconds=seconds):
                await network.lose_power(machine)
                await asyncio.sleep(seconds)
                await network.start_again(machine)
            case actions.Upgrade(machine=machine):
                await network.halt(machine)
                await network.start_again(machine)
            case actions.Destroy(machine=machine, fresh=fresh):
                return await self._destroy(machine, fresh)
            case actions.Stop(machine=machine, seconds=seconds):
                stopped = network.machines[machine]
                stopped.signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(seconds)
                finally:
                    stopped.signal(signal.SIGCONT)
            case actions.MoveBroker(broker=broker, to=to):
                found = await survey(list(network.directory.admin.values()))
                end = await move_broker(found, broker, to, seconds_max=MOVE_SECONDS_MAX)
                return f"refused: {end.reason}" if end.reason else DONE
        return DONE

    async def _kill(self, broker: Node, seconds: float) -> str:
        """One that was promoted elsewhere is started again by its host."""
        network = self._network
        if broker not in network.running:
            return f"refused: {broker} does not run"
        is_at_home = network.home_of(broker) == broker
        await network.kill(broker)
        await asyncio.sleep(seconds)
        if is_at_home:
            await network.start_again(broker)
        return DONE

    async def _destroy(self, machine: Node, fresh: Node) -> str:
        network = self._network
        reasons = await until_whole(network, self._clients, seconds_max=COVERED_SECONDS_MAX)
        if reasons:
            return f"refused: not all brokers have their copies: {'; '.join(reasons)}"
        await network.destroy(machine)
        await network.start_host(fresh)
        return DONE

    # State

    async def _to_state(self, action: actions.FullDisk | actions.SlowDisk | actions.Damage) -> str:
        match action:
            case actions.FullDisk(broker=broker, seconds=seconds):
                return await self._post(broker, "disk", {"full": True, "seconds": seconds}, seconds)
            case actions.SlowDisk(broker=broker, delay=delay, seconds=seconds):
                return await self._post(broker, "disk", {"delay": delay, "seconds": seconds}, seconds)
            case actions.Damage(broker=broker, what=what, share=share):
                self._fault(broker, fault_detail(self._network.scenario, f"corrupt {what}"))
                return await self._post(broker, "corrupt", {"what": what, "share": share, "seed": 1}, 0.0)

    async def _post(self, broker: Node, fault: str, body: dict[str, object], seconds: float) -> str:
        answer = await ask(self._network.directory.admin[broker], f"/debug/{fault}", body)
        if not answer.is_ok:
            return f"refused: {answer.value.get('error', answer.value)}"
        await asyncio.sleep(seconds)
        return DONE

    # Links

    async def _to_links(
        self, action: actions.Cut | actions.Flap | actions.Partition | actions.Loss | actions.Slow
    ) -> str:
        match action:
            case actions.Cut(link=(a, b), seconds=seconds):
                await _cut(self._network.switch.link(a, b), seconds)
            case actions.Flap(link=(a, b), every=every, seconds=seconds):
                for _ in range(max(1, int(seconds / every / 2))):
                    await _cut(self._network.switch.link(a, b), every)
                    await asyncio.sleep(every)
            case actions.Partition(side=side, one_way=one_way, seconds=seconds):
                others = [node for node in self._network.nodes if node not in side]
                await self._hold(product(side, others), seconds, one_way=one_way)
            case actions.Loss(link=(a, b), share=share, seconds=seconds):
                link = self._network.switch.link(a, b)
                link.loss = share
                try:
                    await asyncio.sleep(seconds)
                finally:
                    link.loss = 0.0
            case actions.Slow(link=(a, b), latency=latency, seconds=seconds):
                link = self._network.switch.link(a, b)
                before, link.latency = link.latency, latency
                try:
                    await asyncio.sleep(seconds)
                finally:
                    link.latency = before
        return DONE

    async def _hold(self, pairs: Iterable[tuple[Node, Node]], seconds: float, *, one_way: bool) -> None:
        held = [(self._network.switch.link(here, there), here, there) for here, there in pairs]
        for link, here, there in held:
            link.hold(here)
            if not one_way:
                link.hold(there)
        try:
            await asyncio.sleep(seconds)
        finally:
            for link, here, there in held:
                link.release(here)
                if not one_way:
                    link.release(there)


async def _cut(link: Link, seconds: float) -> None:
    link.cut()
    try:
        await asyncio.sleep(seconds)
    finally:
        link.heal()
