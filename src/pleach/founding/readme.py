"""The page of a new network: the commands that start it, show it, use it, destroy a part of it, and stop it.

Blocks of `sh` are run by a test in this order, in the directory of the page, where all brokers are on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pleach.founding.broker_files import ACCESS, APPLICATION, DATA, OPERATOR, SETTINGS, TLS
from pleach.founding.layout import NewNetwork

DESTROYED_MIN = 3  # brokers: of fewer nobody can know whether the others are lost or only cut off
EACH = f"for file in */{SETTINGS}; do name=${{file%/*}}"
WAIT_FOR = 'wait_for() { for attempt in $(seq 120); do "$@" && return; sleep 1; done; return 1; }'


def readme(network: NewNetwork) -> str:
    return "\n\n".join(_sections(network)) + "\n"


def _sections(network: NewNetwork) -> Iterator[str]:
    yield _head(network)
    yield _started() if network.is_local else _started_on_machines(network)
    yield _looked_at(network)
    yield _used(network)
    if not network.is_local:
        yield _later_on_machines(network)
        return
    yield _stopped_and_started(network)
    if len(network.brokers) >= DESTROYED_MIN:
        yield _destroyed(network)
    yield _joined(network)
    yield _removed(network)
    yield _section("Stop them all", [], _stopping())


def _section(title: str, text: Sequence[str], commands: Sequence[str], after: Sequence[str] = ()) -> str:
    block = ["```sh", *commands, "```"]
    parts = [[f"## {title}"], text, block, after]
    return "\n\n".join("\n".join(part) for part in parts if part)


# What is there -------------------------------------------------------------------------------------------------------


def _head(network: NewNetwork) -> str:
    rows = [
        f"| {each.name} | {each.zone or '–'} | {each.client} | {each.peer} | {each.admin} |" for each in network.brokers
    ]
    files = f"`{SETTINGS}`, `{TLS}/`, and `{ACCESS}`: who may do what" if network.is_secured else f"`{SETTINGS}`"
    lines = [
        f"# {network.name}: a network of {len(network.brokers)} brokers",
        "",
        "The brokers look after their tree themselves: each has a copy of its data on another machine, repairs what it",
        "knows, and moves its links to where they cost least. A further broker needs the address of one of them.",
        "",
        "| broker | zone | clients | brokers (TCP, and UDP) | operators |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"Each has a directory with all that its machine needs ({files}).",
    ]
    if network.is_secured:
        lines += [
            "`certs/` is the authority. Who has `certs/authority.key.pem` decides who is in the network: keep it off",
            f"the brokers. `certs/clients/{APPLICATION}` is for applications, `certs/operators/{OPERATOR}` for you.",
        ]
    return "\n".join(lines)


# Starting and stopping -----------------------------------------------------------------------------------------------


def _started() -> str:
    text = [
        "All at once, in this directory. A broker prints a line with its addresses when it is in the tree, and serves",
        "clients when another one has a copy of it.",
    ]
    return _section("Start", text, [WAIT_FOR, *_starting()])


def _starting() -> list[str]:
    return [
        EACH,
        f"    (cd $name && exec pleach broker --config {SETTINGS} > ready 2>> log) &",
        "    echo $! > $name/pid",
        "done",
        f"{EACH}; wait_for test -s $name/ready; done",
    ]


def _started_on_machines(network: NewNetwork) -> str:
    """Each directory keeps its name: several brokers may be on one machine."""
    hosts = [(each.name, each.client.host) for each in network.brokers]
    copied = [f"scp -r {name} {f'[{host}]' if ':' in host else host}:" for name, host in hosts]
    text = [
        "Copy each directory to its machine, and start the broker there, as here b1; all at once, or one after the",
        "other within a minute:",
    ]
    after = [
        "As a service: `deploy/pleach-broker.service` and `deploy/Containerfile` of Pleach; make the paths in the file",
        "absolute.",
    ]
    started = ["```sh", f"cd {hosts[0][0]} && pleach broker --config {SETTINGS}", "```", "", *after]
    return _section("Start", text, copied, started)


def _later_on_machines(network: NewNetwork) -> str:
    spare, last = network.spare, network.brokers[-1]
    remove = f"pleach overlay remove {last.name} --via {network.brokers[0].admin}{_as_operator(network)}"
    lines = [
        "## Later",
        "",
        "- **Stop a broker** with SIGTERM, and start it again by the same command. If others go on, a copy takes its",
        "  place after a second, and its machine holds a copy when it is back.",
        f"- **Take one out** for good: `{remove}`.",
        "- **One more broker**, there, with `--client-listen`, `--peer-listen`, `--admin-listen`, `--data-dir`,",
        *(
            _more_when_secured(spare.name)
            if network.is_secured
            else ["  and `PLEACH_INSECURE=true` in its environment:"]
        ),
        f"  `pleach broker {spare.name} --join {','.join(spare.join)}`.",
    ]
    return "\n".join(lines)


def _more_when_secured(name: str) -> list[str]:
    return [
        f"  `--tls` and `--access`, once `pleach certs broker certs {name} --host HOST` has made its certificate, and",
        f"  `members.json*` of each directory in `certs/brokers/` is in `{TLS}/` of its broker, which was sent SIGHUP:",
    ]


def _stopped_and_started(network: NewNetwork) -> str:
    text = [
        "SIGTERM: a broker writes what it has, and ends. Events for it wait; if others go on, a copy takes its place",
        "after a second, and its machine holds a copy when it is back.",
    ]
    shown = _shown(network, is_covered=len(network.brokers) >= DESTROYED_MIN)
    return _section("Stop, and start again", text, [*_stopping(), *_starting(), *shown])


def _stopping() -> list[str]:
    return [
        "kill $(cat */pid) 2> /dev/null || true",
        "ended() { ! kill -0 $(cat $1) 2> /dev/null; }",
        "for file in */pid; do wait_for ended $file; done",
        "rm */ready",
    ]


# Looking -------------------------------------------------------------------------------------------------------------


def _looked_at(network: NewNetwork) -> str:
    asked = network.brokers[0].admin
    text = ["The tree, and on which machine each broker has its copy.", *_in_a_browser(network)]
    after = ["Two brokers alone are `not covered`: if one is lost, the other cannot know it. A third one decides."]
    if not network.is_local:
        return _section("Look at it", text, [f"pleach overlay show {asked}{_as_operator(network)}"])
    is_covered = len(network.brokers) >= DESTROYED_MIN
    return _section("Look at it", text, _shown(network, is_covered=is_covered), () if is_covered else after)


def _in_a_browser(network: NewNetwork) -> list[str]:
    """A browser that has no certificate is asked for a token, which nobody has here."""
    asked = network.brokers[0].admin
    if not network.is_secured:
        return [f"In a browser: http://{asked}/dashboard/"]
    command = f"pleach dashboard {asked}{_as_operator(network)}"
    return [f"In a browser, at the address that this prints: `{command}`"]


def _shown(network: NewNetwork, *, is_covered: bool) -> list[str]:
    """Once all answer, and each has its copies where that is possible."""
    show = f"pleach overlay show {network.brokers[0].admin}{_as_operator(network)} > tree 2>&1"
    condition = f"{show} && ! grep -q 'not covered' tree" if is_covered else show
    return [f"is_there() {{ {condition}; }}", "wait_for is_there", "cat tree"]


def _as_operator(network: NewNetwork) -> str:
    return f" --tls certs/operators/{OPERATOR}" if network.is_secured else ""


# Clients -------------------------------------------------------------------------------------------------------------


def _used(network: NewNetwork) -> str:
    text = [
        "A client connects to any broker, best to the nearest. Further addresses, with commas between them, are for",
        "when that one is away.",
    ]
    return _section("Publish and subscribe", text, [*_reader(network, 1, 10), *_writer(network, 1), *_read(10)])


def _reader(network: NewNetwork, number: int, count: int) -> list[str]:
    to = network.brokers[-1].client
    flags = f"--to {to} {_as_application(network, f'reader-{number}')} --count {count}"
    wait = [] if network.is_local else [WAIT_FOR]
    return [*wait, f"pleach sub \"topic = 'orders'\" {flags} > got 2> sub.log &", "wait_for grep -q subscribed sub.log"]


def _writer(network: NewNetwork, number: int) -> list[str]:
    to = network.brokers[0].client
    flags = f"--to {to} {_as_application(network, f'writer-{number}')} --repeat 10"
    return [f"pleach pub topic=orders amount=50 {flags}"]


def _read(count: int) -> list[str]:
    return [f"has_all() {{ [ $(wc -l < got) -ge {count} ]; }}", "wait_for has_all", "wc -l < got"]


def _as_application(network: NewNetwork, suffix: str) -> str:
    tls = f" --tls certs/clients/{APPLICATION}" if network.is_secured else ""
    return f"--name {APPLICATION}-{suffix}{tls}"


# What happens to it --------------------------------------------------------------------------------------------------


def _destroyed(network: NewNetwork) -> str:
    lost = network.brokers[1].name
    text = [
        f"{lost} is killed, and its directory deleted. A second later it runs on another machine, with all that was",
        "acknowledged, and nothing is missing.",
    ]
    commands = [
        *_reader(network, 2, 20),
        *_writer(network, 2),
        f"kill -9 $(cat {lost}/pid)",
        f"rm -rf {lost}",
        *_writer(network, 3),
        *_read(20),
        *_shown(network, is_covered=len(network.brokers) > DESTROYED_MIN),
    ]
    return _section("Lose a machine", text, commands)


def _joined(network: NewNetwork) -> str:
    spare = network.spare
    listens = f"--client-listen {spare.client} --peer-listen {spare.peer} --admin-listen {spare.admin}"
    more = (f" --zone {spare.zone}" if spare.zone else "") + (
        f" --tls {TLS} --access {ACCESS}" if network.is_secured else ""
    )
    commands = [
        f"mkdir {spare.name}",
        *(_admitted(network) if network.is_secured else []),
        f"(cd {spare.name} && exec pleach broker {spare.name} --join {','.join(spare.join)} \\",
        f"    {listens} \\",
        f"    --data-dir {DATA}{more} > ready 2>> log) &",
        f"echo $! > {spare.name}/pid",
        f"wait_for test -s {spare.name}/ready",
        *_shown(network, is_covered=True),
    ]
    text = [
        "It needs the address of one that is there, and finds its place. To start it again: the command in brackets,",
        f"since *Start* knows only brokers with a `{SETTINGS}`.",
    ]
    return _section("One more broker", text, commands)


def _admitted(network: NewNetwork) -> list[str]:
    """A certificate, and the list of members with it for all the others."""
    spare, first = network.spare, network.brokers[0].name
    return [
        f"pleach certs broker certs {spare.name} --host {spare.client.host}",
        f"cp -r certs/brokers/{spare.name} {spare.name}/{TLS}",
        f"cp {first}/{ACCESS} {spare.name}/",
        f"{EACH}; cp certs/brokers/$name/members.json* $name/{TLS}/; kill -HUP $(cat $name/pid); done",
    ]


def _removed(network: NewNetwork) -> str:
    text = ["For good: its links and its clients go to a neighbour. Its process ends when others have what it holds."]
    via = f"--via {network.brokers[0].admin}{_as_operator(network)}"
    return _section("Take one out", text, [f"pleach overlay remove {network.spare.name} {via}"])
