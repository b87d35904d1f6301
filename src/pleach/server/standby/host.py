"""A machine's part in the views of other brokers: members, their replicas, and brokers that were promoted here.

    <data_dir>/standby/<broker>/register · data/ (the replica) · files (what it takes to run the broker)

Rule 1: a primary that is heard gets an answer, whoever it is; a folder is made once it sends a copy, or a view.
Rule 2: a member whose machine becomes the primary ends here: its replica is closed, and the broker started from that,
        in a process of its own (launcher.py). The member is that process's from then on, until it ends; until it
        begins to speak, the host says that the primary is alive. The host's own broker is run by the host itself
        (process.py).
Rule 3: a member whose disk has failed is silent from then on, as if the machine were gone; the others go on.
Rule 4: a machine that is leaving for good stays until the copies that it holds, and the brokers that were promoted
        here, are elsewhere. Votes that nobody takes are waited for `VOTE_PATIENCE` times what counts as silence.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pleach.core.messages import Node
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import Alive, ViewInstalled
from pleach.core.standby.views import Machine, Register, View
from pleach.errors import PleachError, PromotionError, StoreError
from pleach.net.addresses import BrokerAddresses
from pleach.net.enquiry import Whereabouts
from pleach.server.bugs import watched
from pleach.server.links import Port
from pleach.server.standby.held_copy import CopyPlace, HeldCopy
from pleach.server.standby.links import MemberLinks, Receiver
from pleach.server.standby.messages import BetweenMachines, BrokerFiles, HostIsHere
from pleach.server.standby.primary_seat import MachineHost
from pleach.server.standby.registers import FOLDER, broker_folder, broker_of, display
from pleach.server.standby.replica_writer import ReplicaWriter

HELD_MAX = 1_000  # members
VOTE_PATIENCE = 10.0
SPARES_MAX = 4  # processes that are loaded before they are needed
SPARE_SECONDS = 3.0  # after a promotion: brokers that come back need the processor more than new spares do
LAUNCH_SECONDS_MAX = 120.0  # until a broker that was promoted here speaks: it may have much to read

log = logging.getLogger(__name__)


class Launcher(Protocol):
    """Runs brokers that were promoted on this machine, each in a process of its own."""

    def launch(self, broker: Node, files: BrokerFiles, silent: Sequence[Machine]) -> None:
        """The register says that this machine is the primary; the replica is closed.

        `silent`: members of its view that have not been heard for long.
        """

    def resume(self, broker: Node) -> None:
        """The same, where a former process of this host has launched it."""

    def keep_spares(self, count: int) -> None:
        """So many brokers may have to be launched at once."""

    @property
    def running(self) -> dict[Node, int]:
        """Brokers, with the ids of their processes."""

    def addresses_of(self, broker: Node) -> BrokerAddresses | None:
        """Where a broker is that runs here."""

    def reload(self) -> None:
        """Let the brokers that run here read their files again."""

    async def stop(self) -> None: ...


@dataclass
class Launching:
    """A broker whose process is being started: the view in which it was promoted, and how long it may take."""

    view: View
    until: float
    process: int = 0  # its id, once it is there


class StandbyHost(MachineHost):
    def __init__(
        self,
        data_dir: Path,
        machine: Machine,
        links: MemberLinks,
        config: Callable[[], StandbyConfig],
        launcher: Launcher,
        *,
        own: Node = "",
        on_own_promoted: Callable[[Sequence[Machine]], None] = lambda _: None,
    ) -> None:
        """`own`: the broker of this process, if it has one. `on_own_promoted`: told which members are silent."""
        super().__init__()
        self.links = links
        self._data_dir = data_dir
        self._machine = machine
        self._config = config
        self._launcher = launcher
        self._own = own
        self._on_own_promoted = on_own_promoted
        self._held: dict[Node, HeldCopy] = {}
        self._elsewhere: dict[Node, str] = {own: "its process runs it"} if own else {}  # whose member is not held; why
        self._launching: dict[Node, Launching] = {}
        self._launched_at = -math.inf  # the last broker that was promoted here
        self._votes_since: float | None = None  # when this machine, which is leaving, had nothing but votes
        self._tasks: dict[asyncio.Task[None], Node] = {}  # which open or close what is here of a broker, or start it
        self._is_stopping = False
        links.on_unknown = self._meet

    # Members come --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take up what a former process of this machine has left."""
        root = self._data_dir / FOLDER
        for folder in sorted(each for each in root.iterdir() if each.is_dir()) if root.is_dir() else ():
            if broker_of(folder) != self._own:
                self.take_up(broker_of(folder))

    def take_up(self, broker: Node) -> None:
        """Hold the member that is on disk; or run the broker, if it was promoted here."""
        place = self._place(broker)
        try:
            register = place.register.load()
        except StoreError as error:
            self.failed(broker, str(error))
            return
        is_primary = register is not None and register.view.primary == self._machine
        if register is None and broker != self._own:
            self._elsewhere.pop(broker, None)
            shutil.rmtree(place.folder, ignore_errors=True)  # a copy that was not finished, and is in no view
        elif is_primary and broker != self._own:
            self._elsewhere[broker] = "it was promoted here"
            self._resume(broker)
        else:
            self._elsewhere[broker] = "it is being opened"
            self._start(broker, self._open(broker, place, register))

    def _resume(self, broker: Node) -> None:
        try:
            self._launcher.resume(broker)
        except PleachError as error:
            self._cannot_run(broker, str(error))

    async def _open(self, broker: Node, place: CopyPlace, register: Register | None) -> None:
        writer = ReplicaWriter(place.data, broker) if place.data.is_dir() else None
        try:
            position = await writer.open() if writer is not None else None
        except StoreError as error:
            self.failed(broker, str(error))
            return
        held = self._hold(place, self._member(broker, register=register, position=position), writer)
        held.begin()
        if held.member.is_primary:
            held.member.cannot_lead()  # or it would be run

    def _member(self, broker: Node, **known: Any) -> StandbyMember:
        return StandbyMember(self._machine, broker, self._config(), now=time.monotonic(), **known)

    def _hold(self, place: CopyPlace, member: StandbyMember, writer: ReplicaWriter | None = None) -> HeldCopy:
        held = self._held[member.broker] = HeldCopy(self, place, member, writer)
        self._elsewhere.pop(member.broker, None)
        self.links.attach(member.broker, held)
        return held

    def _meet(self, broker: Node, machine: Machine, message: BetweenMachines) -> Receiver | None:
        """A message for a broker whose member is not held here (rule 1); or not any more, as the process stops.

        Who made another member then would save a register without what the former one has promised.
        """
        if self._is_stopping:
            return None
        if machine == self._machine:
            self._launching.pop(broker, None)  # its process speaks
            return None
        if broker == self.links.own.name != self._own and broker not in self._elsewhere:
            self.failed(broker, "a machine without a broker cannot be called like one: give it another name")
        is_first = isinstance(message, Alive | ViewInstalled)
        if not is_first or broker in self._elsewhere or len(self._held) >= HELD_MAX:
            return None
        return self._hold(self._place(broker), self._member(broker))

    def _place(self, broker: Node) -> CopyPlace:
        own = self._data_dir if broker == self._own else None
        return CopyPlace(broker_folder(self._data_dir, broker), own)

    # Members go ----------------------------------------------------------------------------------------------

    def promoted(self, broker: Node, view: View, silent: Sequence[Machine]) -> None:
        """Rule 2."""
        log.warning("view %d of %s: this machine takes its place", view.number, broker)
        self._elsewhere[broker] = "it was promoted here"
        held = self._let_go(broker)
        self._start(broker, self._run(broker, view, held, silent))

    async def _run(self, broker: Node, view: View, held: HeldCopy, silent: Sequence[Machine]) -> None:
        await held.close()
        if broker == self._own:
            self._on_own_promoted(silent)
        elif held.files is None:
            self._cannot_run(broker, "its settings have not come")
        else:
            try:
                self._launched_at = time.monotonic()
                self._launcher.launch(broker, held.files, silent)
            except PleachError as error:
                self._cannot_run(broker, str(error))
            else:
                self._launching[broker] = Launching(view, time.monotonic() + LAUNCH_SECONDS_MAX)

    def _cannot_run(self, broker: Node, reason: str) -> None:
        """Nobody says that the primary is alive, and this machine votes for another one."""
        log.critical("%s cannot run here: %s", broker, reason)
        self._elsewhere[broker] = reason
        place = self._place(broker)
        self._start(broker, self._open(broker, place, place.register.load()))

    def ended(self, broker: Node) -> None:
        """The process of a broker that was promoted here has ended: another machine runs it, or it has left."""
        self.take_up(broker)

    def failed(self, broker: Node, reason: str) -> None:
        """Rule 3."""
        log.critical("this machine holds no copy of %s any more: %s", broker, reason)
        self._elsewhere[broker] = reason
        if broker in self._held:
            self._start(broker, self._let_go(broker).close())

    def _let_go(self, broker: Node) -> HeldCopy:
        self.links.detach(broker)
        return self._held.pop(broker)

    def reload(self) -> None:
        """The settings of this machine, or files that they name, are others."""
        self._launcher.reload()

    async def stop(self) -> None:
        self._is_stopping = True
        await self._launcher.stop()
        for held in list(self._held.values()):
            self.links.detach(held.member.broker)
            await held.close()
        self._held.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, broker: Node, work: Coroutine[Any, Any, None]) -> None:
        task = watched(work)
        self._tasks[task] = broker
        task.add_done_callback(self._tasks.pop)

    def decree(self, broker: Node) -> View:
        """An operator says that the machine of a broker is lost, and that this one shall run it.

        Raises PromotionError where this machine cannot.
        """
        held = self._held.get(broker)
        if held is None:
            raise PromotionError(f"no copy of {broker} is held here" + self._why_elsewhere(broker))
        view = held.member.view
        if view is None or held.member.position is None:
            raise PromotionError(f"the copy of {broker} here is not whole")
        if not held.is_alarmed:
            raise PromotionError(f"{display(view.primary)} runs {broker}, and is heard here: stop it first")
        log.warning("an operator says that the machine of %s is lost", broker)
        held.driver.perform(held.member.decree(held.driver.now))
        assert held.member.view is not None
        return held.member.view

    def _why_elsewhere(self, broker: Node) -> str:
        return f": {self._elsewhere[broker]}" if broker in self._elsewhere else ""

    # Time, and what operators see ----------------------------------------------------------------------------

    def tick(self) -> None:
        self._speak_for_launching()
        for held in list(self._held.values()):
            held.tick()
            if held.is_forgettable and held.member.broker in self._held:
                self._let_go(held.member.broker)
        if time.monotonic() - self._launched_at > SPARE_SECONDS:
            self._launcher.keep_spares(self._spares_wanted())

    def _spares_wanted(self) -> int:
        """As many as brokers that would be promoted here if one machine were lost.

        To load one is half a second of work, which nobody should have to wait for then.
        """
        copies = [held for held in self._held.values() if held.may_be_promoted]
        by_machine = Counter(held.primary for held in copies if held.is_first_standby)
        return min(SPARES_MAX, max(by_machine.values(), default=min(1, len(copies))))

    @property
    def needed_for(self) -> list[Node]:
        """Brokers that would lose a copy, or their place, with this machine; or might, as long as that is not known."""
        copies = [broker for broker, held in self._held.items() if held.is_copy]
        return sorted({*copies, *self._tasks.values(), *self._launching, *self._launcher.running})

    def leave(self) -> bool:
        """Called again and again by a machine that is leaving; whether it may end by now (rule 4)."""
        votes = [broker for broker, held in self._held.items() if held.is_member]
        if self.needed_for or not votes:
            self._votes_since = None
            return not self.needed_for
        now = time.monotonic()
        self._votes_since = now if self._votes_since is None else self._votes_since
        is_over = now - self._votes_since > VOTE_PATIENCE * self._config().after
        if is_over:
            log.warning("nobody has taken the votes that this machine has for %s", ", ".join(sorted(votes)))
        return is_over

    def say_here(self, here: HostIsHere, joined: Iterable[str]) -> bool:
        """This machine runs no broker of its own: let others know of it, through whoever runs one.

        Whether anybody was told.
        """
        self.links.send_here(here)
        told = {machine: address for address in joined if (machine := self.links.machine_at(address))}
        for held in self._held.values():
            told |= held.member.view.addresses if held.member.view is not None else {}
        for machine, address in told.items():
            if machine != self._machine:
                self.links.send(here.broker, machine, address, here)
        return bool(told)

    def refer(self, broker: Node, port: Port) -> Whereabouts | None:
        """The same; a client is told of any other broker where this machine knows no more: that one does."""
        found = self.locate(broker, port)
        if port is Port.PEERS or (found is not None and found.address):
            return found
        known = next((address for address in self._brokers_for_clients() if address), "")
        return Whereabouts(0, is_there=False, address=known) if known else None

    def _brokers_for_clients(self) -> Iterator[str]:
        """Where brokers listen for clients that run here, or are heard."""
        running = map(self._launcher.addresses_of, self._launcher.running)
        yield from (places.client for places in running if places is not None)
        yield from (held.addresses.client for held in self._held.values() if held.hears_primary)

    def locate(self, broker: Node, port: Port) -> Whereabouts | None:
        """Where a broker is that runs here, or the host of its primary, as far as the copy that is held here knows."""
        places = self._launcher.addresses_of(broker)
        if places is not None:
            register = self._place(broker).register.load()
            number = register.view.number if register is not None else 0
            return Whereabouts(number, is_there=True, address=places.client if port is Port.CLIENTS else places.peer)
        held = self._held.get(broker)
        view = held.member.view if held is not None else None
        if held is None or view is None or view.primary == self._machine:
            return None
        if port is Port.CLIENTS:  # only a copy gets the files of each new primary
            address = held.addresses.client if held.may_be_promoted else ""
            return Whereabouts(view.number, is_there=True, address=address)
        return Whereabouts(view.number, is_there=False, address=view.addresses.get(view.primary, ""))

    def _speak_for_launching(self) -> None:
        """Rule 2."""
        running = self._launcher.running
        for broker, launching in list(self._launching.items()):
            view, process = launching.view, running.get(broker, 0)
            has_ended = launching.process not in (0, process)
            launching.process = launching.process or process
            if has_ended or time.monotonic() > launching.until:
                del self._launching[broker]  # let another machine try
                continue
            for machine in view.members:
                if machine != self._machine:
                    self.links.send(broker, machine, view.addresses.get(machine, ""), Alive(broker, view.number))

    def _admins(self) -> Iterator[tuple[Node, str]]:
        """Where operators find brokers that run here, or of which there is a copy here, as far as that is known."""
        for broker, held in self._held.items():
            if held.may_be_promoted and (address := held.addresses.admin):
                yield broker, address
        for broker in self._launcher.running:
            if places := self._launcher.addresses_of(broker):
                yield broker, places.admin

    def status(self) -> dict[str, object]:
        """Which machine this is, what it holds, and what it runs for others."""
        return {
            "machine": self._machine,
            "holds": {broker: held.status() for broker, held in sorted(self._held.items())},
            "runs": self._launcher.running,
            "admins": dict(sorted(self._admins())),
        }
