"""Standbys of a simulated network: its machines, its replicated brokers, and what connects them.

The simulator runs the members of processes (core/standby/member.py), one for each machine and broker; here is what
drives them. Each broker of the scenario has a machine of its name. When the run begins, each has its copies already, as
in a network that has been up for a while; a broker that joins later gets them first, and is asked to join then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from pleach.core.effects import Concluded, Send, SetTimer
from pleach.core.messages import OPERATOR, Node, OperatorRequest
from pleach.core.standby.candidates import KnownMachine, Preference, candidates
from pleach.core.standby.composition import Candidate
from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, Register, View
from pleach.errors import StandbyError
from pleach.scenario.machines import OUTSIDE, BrokerTree, tree_of
from pleach.scenario.model import Scenario
from pleach.sim.links import SimLink
from pleach.sim.service import service_of
from pleach.sim.simulator import TimedMachine
from pleach.sim.standby.history import BEGINNING, JournalledBroker
from pleach.sim.standby.hosts import Host, HostMessage
from pleach.sim.standby.machines import FORGOTTEN_SHARE, SimMachines
from pleach.sim.standby.replicated import ReplicatedBroker
from pleach.sim.standby.running import RunningBroker
from pleach.sim.standby.sessions import SimSessions
from pleach.sim.standby.simulator import StandbySimulator
from pleach.sim.standby.ways import Way, Ways
from pleach.trace import RecordKind

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun

TICKS_PER_SILENCE = 4  # within `after`
START_SHARE_MAX = 0.1  # of `after`: a broker starts from its copy
FILL_SHARE_MAX = 0.1  # of `after`


class Standbys:
    def __init__(self, run: ScenarioRun, sim: StandbySimulator) -> None:
        self.scenario: Scenario = run.scenario
        assert self.scenario.standby is not None
        self.sim = sim
        self.config = StandbyConfig(self.scenario.standby.after, self.scenario.standby.copies)
        self.sessions = SimSessions(may_lose=bool(self.scenario.loss.default or self.scenario.loss.links))
        self.ways = Ways(self.scenario, run.stream)
        self.hosts: dict[Machine, Host] = {}  # also those that are gone
        self.brokers: dict[Node, ReplicatedBroker] = {}
        self.destroyed: dict[Machine, None] = {}
        self._left: dict[Node, int] = {}  # the last views of brokers that have left for good
        self._run = run
        self._views: dict[Node, View] = {}  # the newest of each broker
        self._machines = SimMachines(self)
        self._short: Node = ""  # the last broker that lacked copies, which is looked at first
        sim.standbys = self

    # Before the start ----------------------------------------------------------------------------------------

    def build(self) -> None:
        """Machines, brokers, and their first views."""
        assert self.scenario.standby is not None
        for machine in (*self.scenario.brokers, *self.scenario.standby.machines):
            self._add_host(machine)
        tree = tree_of(self.scenario)
        for broker in self.scenario.brokers:
            self._add_broker(broker, tree)

    def begin(self) -> None:
        """Start all brokers of the scenario, each with its copies in place."""
        self.sim.add(OPERATOR, _Operator())
        for broker in self.scenario.brokers:
            self.sim.link(OPERATOR, broker, (0.0, 0.0))
            view = self._views[broker] = self._first_view(broker)
            self._note(broker, _told(view))
            for machine in view.members:
                host = self.hosts[machine]
                host.disk.registers[broker] = Register(view)
                if machine in view.copies:
                    host.disk.copies[broker] = BEGINNING
                host.member(broker)
            self.hosts[broker].start(broker)

    def found(self, broker: Node) -> None:
        """A broker that is new, with a machine of its own; it serves once it has a standby."""
        host = self._add_host(_fresh_name(broker, self.hosts))
        former = self.brokers.get(broker)
        self._add_broker(broker, OUTSIDE)
        if former is None:
            self.sim.link(OPERATOR, broker, (0.0, 0.0))
        host.disk.copies[broker] = BEGINNING
        member = host.member(broker)
        host.carry_out(member, member.found("", self._left.get(broker, 0) + 1))
        host.start(broker)

    def _add_host(self, machine: Machine) -> Host:
        host = self.hosts[machine] = Host(machine, self)
        self.machines_changed()
        every = self.config.after / TICKS_PER_SILENCE
        self.later(every * self.ways.draws.random(), partial(self._tick, host))
        return host

    def _add_broker(self, broker: Node, tree: BrokerTree) -> None:
        replicated = self.brokers[broker] = ReplicatedBroker(broker, self, tree)
        self.sim.add(broker, replicated, service=service_of(self.scenario, broker, self._run.brokers))

    def _first_view(self, broker: Node) -> View:
        neighbours = [b if a == broker else a for a, b in self.scenario.links if broker in (a, b)]
        known = [KnownMachine(each, brokers=(each,)) for each in self.hosts]
        others = [each.machine for each in candidates(broker, broker, known, Preference(neighbours=neighbours))]
        copies = (broker, *others[: self.config.copies - 1])
        witnesses = tuple(sorted(others[self.config.copies - 1 : 2 * self.config.copies - 2]))
        return View(broker, 1, copies, witnesses, dict.fromkeys((*copies, *witnesses), ""))

    def wrapped(self, broker: JournalledBroker) -> TimedMachine:
        councils = self._run.councils
        return councils.seated(broker) if councils else broker  # type: ignore[arg-type]

    def first_timers(self, broker: Node) -> list[SetTimer]:
        """Of what is beside a broker in its process."""
        return [self._run.councils.first_round(broker)] if self._run.councils else []

    # Machines ------------------------------------------------------------------------------------------------

    def _tick(self, host: Host) -> None:
        if host.name in self.destroyed:
            return
        if host.is_up:
            self._let_go(host)
            host.tick()
        self.later(self.config.after / TICKS_PER_SILENCE, partial(self._tick, host))

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.sim.later_member(seconds, action)

    def start_seconds(self) -> float:
        return self.ways.draws.uniform(0.0, START_SHARE_MAX * self.config.after)

    def fill_seconds(self) -> float:
        return self.ways.draws.uniform(0.0, FILL_SHARE_MAX * self.config.after)

    def written(self, running: RunningBroker, confirmed: int) -> int:
        """The last commit that is on the disk of a process that ends now: what was confirmed is."""
        return self.ways.draws.randint(max(confirmed, running.base.number), running.position.number)

    def arrived(self, way: Way, message: HostMessage) -> None:
        host = self.hosts[way.receiver]
        if host.is_up:
            host.receive(way.sender, message)

    def candidates(self, running: RunningBroker) -> tuple[Candidate, ...]:
        return self._machines.candidates(running)

    def forget_later(self) -> None:
        """A machine has gone down."""
        self.later(FORGOTTEN_SHARE * self.config.after, self.machines_changed)

    def machines_changed(self) -> None:
        """Brokers tell each other which machines there are, and who runs there."""
        self._machines.changed()

    # Brokers -------------------------------------------------------------------------------------------------

    def open(self, broker: Node, host: Host, base: Position) -> RunningBroker:
        replicated = self.brokers[broker]
        running = RunningBroker(replicated, host, base)
        self.sim.admit(running.key, running)  # type: ignore[arg-type]
        return running

    def serves(self, running: RunningBroker) -> None:
        """All nodes that can reach it connect to it; what was not confirmed is sent again, both ways."""
        self._note(running.broker.name, f"serves at {running.host.name}")
        self._mends_anew(running.broker.name)
        running.broker.serve(running)
        if running.broker.name in self._run.brokers:
            self._run.brokers[running.broker.name] = running.inner
        self.machines_changed()
        for session in self.sessions.of(running.broker.name):
            self._renew(session.link)
        self.sim.changed()

    def closed(self, running: RunningBroker) -> None:
        """A process has ended. Whoever was connected to it connects to the one that serves now, if there is one."""
        running.is_running = False
        self.sim.dismiss(running.key)
        broker, name = running.broker, running.broker.name
        connected = [each for each in self.sessions.of(name) if broker.contact_of(each.peer_of(name)) is running]
        for session in connected:
            if session.link.sender == name:
                self.sim.tear(session.link)
        broker.stopped(running)
        for session in connected:
            self._reconnect(session.link)

    def saw_view(self, view: View) -> None:
        known = self._views.get(view.broker)
        if known is not None and known.number == view.number and known != view:
            raise StandbyError(f"two views of one number: {known} and {view}")
        if known is None or known.number < view.number:
            self._views[view.broker] = view
            self.sim.changed()
            self._note(view.broker, _told(view))
            self._mends_anew(view.broker)

    def _mends_anew(self, broker: Node) -> None:
        """A broker has changed its machine, or its copies; so long it has confirmed nothing, perhaps."""
        faults = self._run.faults
        faults.ends(f"move of {broker}")
        in_use = {machine for view in self._views.values() for machine in view.members}
        for machine in self.destroyed:
            if machine not in in_use:
                faults.ends(f"machine {machine}")

    def view_of(self, broker: Node) -> View:
        return self._views[broker]

    def _note(self, broker: Node, detail: str) -> None:
        self._run.record(RecordKind.STATE, broker, detail=detail)

    def damaged(self, broker: Node) -> None:
        current = self.brokers[broker].current
        assert current is not None, "a broker that does not run is not damaged"
        current.damaged(self.sim.now)

    def ask(self, broker: Node, request: OperatorRequest) -> None:
        """A request of an operator, who asks again until the broker has it."""
        self.sim.perform(OPERATOR, [Send(broker, request)])

    # Links ---------------------------------------------------------------------------------------------------

    def peers_of(self, broker: Node) -> list[Node]:
        return [each.link.receiver for each in self.sessions.of(broker) if each.link.sender == broker]

    def place_of(self, node: Node, peer: Node) -> str:
        """Where a node is, as one that is connected to it sees it."""
        broker = self.brokers.get(node)
        return node if broker is None else broker.place_for(peer)

    def find_way(self, link: SimLink) -> bool:
        """Whether the link carries messages now."""
        sender, receiver = link.sender, link.receiver
        broker = self.brokers.get(receiver)
        is_up = broker is None or broker.contact_of(sender) is not None
        here, there = self.place_of(sender, receiver), self.place_of(receiver, sender)
        link.blocked = int(not is_up or self.ways.is_cut(here, there))
        return not link.blocked

    def _reconnect(self, link: SimLink) -> None:
        """A new connection, if both ends are up and there is a way."""
        broker = self.brokers.get(link.sender)
        is_up = broker is None or broker.contact_of(link.receiver) is not None
        if self.find_way(link) and is_up:
            self.sim.send_again(link, list(self.sessions.all[link.sender, link.receiver].outbox))

    def _renew(self, link: SimLink) -> None:
        """There may be a way again: nothing arrives by it of what was held up, whose sender may be gone."""
        if self.find_way(link):
            self.sim.send_again(link, [])
            self._reconnect(link)

    def ways_changed(self) -> None:
        """Ways were cut or are whole again: links stop, or go on with what was not confirmed."""
        for broker in self.brokers.values():
            for peer in broker.find_back():
                for link in self.sim.links_between(broker.name, peer):
                    self._renew(link)
        for session in self.sessions.all.values():
            was_blocked = session.link.blocked
            if self.find_way(session.link) and was_blocked:
                self._renew(session.link)

    # Rest ----------------------------------------------------------------------------------------------------

    @property
    def is_owing(self) -> bool:
        """Whether a message or a commit is not confirmed, or a broker runs nowhere."""
        if self.sessions.unconfirmed:
            return True
        return any(
            each.current is None or bool(each.current.pending) for each in self.brokers.values() if not each.is_done
        )

    @property
    def is_short(self) -> bool:
        """Whether a broker has fewer copies, or witnesses, than there are machines for."""
        up = {name for name, host in self.hosts.items() if host.is_up and not host.is_leaving}
        if self._short in self._run.brokers and self._lacks(self.brokers[self._short], up):
            return True
        self._short = next((each for each in self._run.brokers if self._lacks(self.brokers[each], up)), "")
        return bool(self._short)

    def is_covered(self, broker: Node) -> bool:
        """Whether it serves, in a view that is full and open, whose members live and know it.

        Commits may be on their way to the copies, as they always are in a busy network.
        """
        view = self.view_of(broker)
        registers = [self.hosts[each].disk.registers.get(broker) for each in view.members]
        is_known = all(register is not None and register.view == view and register.is_open for register in registers)
        is_full = len(view.members) == 2 * self.config.copies - 1 and all(self.hosts[m].is_up for m in view.members)
        return is_known and is_full and self.brokers[broker].current is not None

    def _lacks(self, broker: ReplicatedBroker, up: Collection[Machine]) -> bool:
        current = broker.current
        if current is None:
            return True
        member = current.host.members[broker.name]
        view, register = member.view, member.register
        assert view is not None
        assert register is not None
        wanted = min(2 * self.config.copies - 1, len(up) + (current.host.name not in up))
        copies = min(self.config.copies, wanted)
        living = [each for each in view.members if self.hosts[each].is_up]
        return (
            not register.is_open
            or bool(member.waits_for)
            or len([each for each in view.copies if each in living]) < copies
            or len(living) < wanted
        )

    # Departures ----------------------------------------------------------------------------------------------

    def _let_go(self, host: Host) -> None:
        """Brokers that have left the network are dissolved once nobody waits for them; then their machines go."""
        for running in list(host.running.values()):
            if self.is_leaving(running):
                self._dissolve(running)
        if host.is_leaving and not any(host.name in view.members for view in self._views.values()):
            host.go_down()

    def is_leaving(self, running: RunningBroker) -> bool:
        """Whether the broker is out of the network, and nobody waits for it or it for anybody."""
        broker = running.broker
        if broker.name in self._run.brokers or broker.current is not running or running.pending:
            return False
        is_asked = any(broker.name in operation.awaited for operation in self._run.operations.under_way)
        return not is_asked and not any(each.outbox for each in self.sessions.of(broker.name))

    def _dissolve(self, running: RunningBroker) -> None:
        """Tell the members, again and again, until all that live have forgotten the broker."""
        name, host = running.broker.name, running.host
        running.broker.is_done = True
        member = host.members[name]
        others = [self.hosts[each] for each in self._views[name].members if each != host.name]
        if any(name in each.disk.registers for each in others if each.name not in self.destroyed):
            host.carry_out(member, member.dissolve())
            return
        running.broker.is_dissolved = True
        for each in self.hosts.values():
            each.forget(name)
        self._left[name] = self._views.pop(name).number
        if not host.running:
            host.is_leaving = True
            self.machines_changed()

    def give_up_lost(self) -> None:
        """A machine was destroyed: brokers that nobody can bring back, and that nobody misses.

        One has left, and all that knew it have forgotten it; another was new, and had no standby yet.
        """
        for name, broker in list(self.brokers.items()):
            if broker.is_dissolved:
                continue
            registers = {each.name: each.disk.registers.get(name) for each in self.hosts.values()}
            known = {machine: register for machine, register in registers.items() if register is not None}
            has_copy = any(machine in register.view.copies for machine, register in known.items())
            if (not known and name not in self._run.brokers) or (not has_copy and not broker.place):
                self._give_up(broker)

    def _give_up(self, broker: ReplicatedBroker) -> None:
        broker.is_done = broker.is_dissolved = True
        self._left[broker.name] = self._views.pop(broker.name).number
        for each in self.hosts.values():
            each.forget(broker.name)
        for session in self.sessions.of(broker.name):
            self.sessions.confirm(session.link.sender, session.link.receiver, session.sent)
        for operation in self._run.operations.under_way:
            if operation.broker == broker.name:
                end = Concluded(operation.name, f"broker {broker.name} is lost: it had no standby yet")
                self._run.operations.concluded(broker.name, end)


class _Operator:
    """Is told the ends of operations by the driver (`Concluded`)."""

    def handle(self, *_: object, **__: object) -> tuple[()]:
        return ()


def _fresh_name(broker: Node, taken: dict[Machine, Host]) -> Machine:
    """Another disk is another machine."""
    life = 1
    while (name := broker if life == 1 else f"{broker}#{life}") in taken:
        life += 1
    return name


def _told(view: View) -> str:
    standbys = f"standby {', '.join(view.standbys)}" if view.standbys else "no standby"
    witnesses = f", witness {', '.join(view.witnesses)}" if view.witnesses else ""
    return f"view {view.number}: primary {view.primary}, {standbys}{witnesses}"
