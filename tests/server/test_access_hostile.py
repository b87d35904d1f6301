"""Ways around a deny at a running broker: what a client tries that has logged in, or has not, and means no good."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import pleach
from pleach.client.reader import Reader
from pleach.core.access import client_access
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Bye, Challenge, Data, FrameReader, Hello, Login, LoginKind, Ping, encode_frame
from pleach.core.messages import (
    Attach,
    Deliver,
    Detach,
    Halt,
    Halted,
    Publish,
    RequestHost,
    RequestMove,
    Subscribe,
    Subscribed,
    encode,
)
from pleach.core.messages.runs import decode_all
from pleach.errors import ClientError, PublishRefusedError
from pleach.net.addresses import parse_addresses
from pleach.net.client_login import Entry
from support.access.keyring import Keyring
from support.live.daemons import Running, chain
from support.live.numbered_events import address, run
from support.live.tiny_broker import until

EVERYTHING = "publish = 'TRUE'\nsubscribe = 'TRUE'"


@pytest.fixture
def keys(tmp_path):
    return Keyring(tmp_path)


@contextlib.asynccontextmanager
async def one(tmp_path, keys, **settings):
    running = Running(tmp_path)
    try:
        await running.start("a", access=keys.settings, **settings)
        yield running
    finally:
        await running.stop_all()


def connected(running, keys, name, broker="a", principal="", **options):
    key = keys.key(principal or name)
    return pleach.connect(address(running, broker), name=name, key=key, heartbeat=0.1, **options)


def reload(running):
    for daemon in running.daemons.values():
        daemon._asked_to_reload()


class Raw:
    """A client that says what it likes, and confirms what it likes."""

    def __init__(self, name):
        self.name, self.epoch, self.number, self.heard = name, time.time_ns(), 0, []

    async def open(self, running, login=None, broker="a", *, hello=True):
        host, port = running.ready[broker].client.rsplit(":", 1)
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        self.frames = FrameReader()
        self.task = asyncio.create_task(self._read())
        if login is not None:
            self.say(login.opening(self.name))
            if login.awaits_challenge:
                await until(lambda: self.of(Challenge))
                self.say(login.answer(self.of(Challenge)[-1], b"", self.name))
        if hello:
            self.say(Hello(self.name, self.epoch, 0, 0, 1, role="client"))
        return self

    async def _read(self):
        with contextlib.suppress(OSError):
            while data := await self.reader.read(65_536):
                self.heard += self.frames.feed(data)
        self.heard.append(None)

    def say(self, *frames):
        self.writer.write(b"".join(map(encode_frame, frames)))

    def tell(self, *messages):
        self.tell_raw(*map(encode, messages))

    def tell_raw(self, *payloads):
        for payload in payloads:
            self.number += 1
            self.say(Data(self.number, payload))

    def of(self, kind):
        return [each for each in self.heard if isinstance(each, kind)]

    @property
    def messages(self):
        return [m for frame in self.of(Data) for m in decode_all(frame.payload)]

    @property
    def got(self):
        return [m.event.attributes for m in self.messages if isinstance(m, Deliver)]

    async def until_ended(self):
        await until(lambda: None in self.heard)

    async def until_greeted(self):
        await until(lambda: self.of(Hello))

    @property
    def is_ended(self):
        return None in self.heard

    async def close(self):
        self.task.cancel()
        self.writer.transport.abort()


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def issuer(tmp_path):
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "issuer.pem").write_bytes(pem)
    return private, "[tokens]\nissuer = 'i'\naudience = 'pleach'\nkeys = 'issuer.pem'"


def test_a_strangers_token_for_another_kind_of_key_does_not_end_the_broker(tmp_path, keys):
    _, head = issuer(tmp_path)
    keys.write(head, alice=f"token = 's'\n{EVERYTHING}")

    async def story():
        async with one(tmp_path, keys) as running:
            for algorithm in ("EdDSA", "ES384", "RS256"):
                forged = f"{part({'alg': algorithm})}.{part({'sub': 's'})}.AAAA"
                raw = await Raw("alice").open(running, hello=False)
                raw.say(Login(LoginKind.TOKEN, "alice", forged.encode()))
                await raw.until_ended()
                assert raw.of(Bye)
                await raw.close()
            assert running.daemons["a"]._exit_code == 0

    run(story())


def test_what_waits_for_a_client_that_has_detached_is_withheld_too(tmp_path, keys):
    """It confirms nothing, so that most of it waits; it detaches, and takes the rest after the right is withdrawn."""
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'TRUE'")

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "p") as publisher:
            raw = await Raw("bob").open(running, keys.login("bob"))
            raw.tell(Attach(), Subscribe("mine", parse_filter("n >= 0")))
            await until(lambda: len(raw.messages) >= 2)
            for n in range(20):
                await publisher.publish({"n": n, "secret": n % 2 == 1})
            session = running.node("a").endpoint.sessions["bob"]
            await until(lambda: len(raw.got) == 20)
            raw.tell(Detach())
            await until(lambda: "bob" not in running.node("a").broker.sessions)
            keys.write(p="publish = 'TRUE'", bob="subscribe = 'secret = FALSE'")
            reload(running)
            waiting = b"".join(payload for _, payload in session.payloads(0))
            assert b"secret\xc3" not in waiting
            assert b"secret\xc2" in waiting
            await raw.close()
            await running.stop("a")  # what is on disk is what waits
            keys.write(p="publish = 'TRUE'", bob="subscribe = 'secret = FALSE AND n > 5'")
            await running.start("a", access=keys.settings)
            waiting = [payload for _, payload in running.node("a").endpoint.sessions["bob"].payloads(0)]
            shown = [m.event.attributes for each in waiting for m in decode_all(each) if isinstance(m, Deliver)]
            assert [each["n"] for each in shown if each] == [6, 8, 10, 12, 14, 16, 18]

    run(story())


def test_a_key_that_is_replaced_is_good_for_nothing_any_more(tmp_path, keys):
    keys.write(alice=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running:
            raw = await Raw("alice").open(running, keys.login("alice"))
            await raw.until_greeted()
            del keys._keys["alice"]
            keys.write(alice=EVERYTHING)  # another key
            reload(running)
            await until(lambda: raw.say(Ping()) or raw.is_ended)
            assert "log in again" in raw.of(Bye)[0].reason
            await raw.close()

    run(story())


def test_who_asks_for_a_component_does_not_change_the_rights_of_a_client(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'n < 3'", adder=f"names = []\ncomponents = ['*']\n{EVERYTHING}")

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "bob") as bob:
            await bob.subscribe("n >= 0")
            before = running.node("a").broker.sessions.access_of("bob").copy()
            request = RequestHost("op", "bob", "running-sum", [parse_filter("TRUE")], incarnation=1)
            assert (await running.node("a").operations.request(request)).refusal
            assert running.node("a").broker.sessions.access_of("bob") == before

    run(story())


def test_a_connection_in_the_name_of_a_component_does_not_speak_for_it(tmp_path, keys):
    keys.write(mallory="names = ['*']", adder=f"names = []\ncomponents = ['sum']\n{EVERYTHING}", bob=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "bob") as bob:
            mine = await bob.subscribe("TRUE")
            raw = await Raw("sum").open(running, keys.login("mallory"))
            await raw.until_greeted()
            request = RequestHost("op", "sum", "running-sum", [parse_filter("EXISTS amount")], incarnation=1)
            assert not (await running.node("a").operations.request(request)).refusal
            raw.tell(Attach(), Publish(Event(EventId("sum", raw.epoch, 1), {"sums": "sum", "total": 7}, b"")))
            await bob.publish({"amount": 1})
            assert [(await mine.next()).attributes.get("total") for _ in range(2)] == [None, 1]
            await raw.until_ended()
            await raw.close()

    run(story())


def test_a_rate_is_not_evaded_by_connecting_again(tmp_path, keys):
    keys.write(p=f"names = ['p-*']\n{EVERYTHING}\nquotas = {{ events_per_second = 100 }}")

    async def one_more(running, number):
        raw = await Raw(f"p-{number}").open(running, keys.login("p"))
        await raw.until_greeted()
        ids = (EventId(raw.name, raw.epoch, n) for n in range(1, 501))
        raw.tell(Attach(), *(Publish(Event(each, {"n": 1}, b"")) for each in ids))
        await raw.writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await until(lambda: len(raw.messages) > 1)
        await raw.close()

    async def story():
        async with one(tmp_path, keys) as running:
            events, began = running.node("a").counters.events, time.monotonic()
            for number in range(20):
                await one_more(running, number)
            most = 600 + 100 * (time.monotonic() - began)
            assert events.publishes <= most, "what had arrived in one read, and its rate"

    run(story())


def test_a_reader_has_the_principal_of_its_client(tmp_path, keys):
    """Both may use the name. What waits was chosen by the rights of the one that has logged in."""
    names = "names = ['shared']"
    keys.write(alice=f"{names}\n{EVERYTHING}", mallory=f"{names}\nsubscribe = 'n < 3'")

    async def story():
        async with one(tmp_path, keys) as running:
            place = parse_addresses(address(running, "a"))
            alice = Reader("shared", place, patience=5.0, entry=Entry(login=keys.login("alice")))
            position = await asyncio.to_thread(alice.subscribe, parse_filter("n >= 0"), 1)
            mallory = Reader("shared", place, patience=1.0, entry=Entry(login=keys.login("mallory")))
            with pytest.raises(ClientError):
                await asyncio.to_thread(mallory.reach, position)
            await asyncio.to_thread(alice.reach, position)

    run(story())


def test_a_narrower_right_to_publish_holds_for_runs_that_passed_before(tmp_path, keys):
    keys.write(alice="publish = 'TRUE'")

    async def refusals(alice):
        futures = [await alice.publish_windowed({"n": n % 2}) for n in range(100)]
        ends = await asyncio.gather(*futures, return_exceptions=True)
        return sum(isinstance(end, PublishRefusedError) for end in ends)

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "alice") as alice:
            assert await refusals(alice) == 0
            keys.write(alice="publish = 'n = 0'")
            reload(running)
            assert await refusals(alice) == 50

    run(story())


def test_who_connects_under_many_names_does_not_take_the_rights_of_who_has_logged_in(tmp_path, keys, monkeypatch):
    """A broker remembers so many clients that are not attached; one that is connected needs no memory."""
    monkeypatch.setattr(client_access, "EXPECTED_MAX", 4)
    keys.write(bob=EVERYTHING, mallory="names = ['m-*']")

    async def story():
        async with one(tmp_path, keys) as running:
            raw = await Raw("bob").open(running, keys.login("bob"))
            await raw.until_greeted()
            for number in range(5):
                other = await Raw(f"m-{number}").open(running, keys.login("mallory"))
                await other.until_greeted()
                await other.close()
            raw.tell(Attach(), Subscribe("mine", parse_filter("TRUE")))
            await until(lambda: len(raw.messages) == 2)
            assert isinstance(raw.messages[1], Subscribed)
            await raw.close()

    run(story())


def test_an_event_is_charged_once_also_where_its_run_is_taken_apart(tmp_path, keys):
    keys.write(p=f"{EVERYTHING}\nquotas = {{ events_per_second = 1000 }}", bob="subscribe = 'TRUE'\nhidden = ['h']")

    async def story():
        async with (
            one(tmp_path, keys) as running,
            connected(running, keys, "bob") as bob,
            connected(running, keys, "p") as publisher,
        ):
            await bob.subscribe("TRUE")
            await asyncio.gather(*[await publisher.publish_windowed({"h": 1}) for _ in range(900)])
            assert running.node("a").counters.door.slowed == 0

    run(story())


def test_who_waits_under_the_name_of_a_client_that_moves_here_gets_no_more_than_its_own_right(tmp_path, keys):
    """Both may use the name. The one that is connected is the one that is judged."""
    names = "names = ['shared']"
    keys.write(p="publish = 'TRUE'", alice=f"{names}\n{EVERYTHING}", mallory=f"{names}\nsubscribe = 'n < 3'")

    async def story():
        async with chain(tmp_path, access=keys.settings) as running, connected(running, keys, "p", "c") as publisher:
            alice = await Raw("shared").open(running, keys.login("alice"))
            alice.tell(Attach(), Subscribe("mine", parse_filter("n >= 0")))
            await until(lambda: len(alice.messages) == 2)
            mallory = await Raw("shared").open(running, keys.login("mallory"), "b")
            await mallory.until_greeted()
            moving = asyncio.ensure_future(
                running.node("a").operations.request(RequestMove("move", "shared", ["a", "b"]))
            )
            await until(lambda: any(isinstance(message, Halt) for message in alice.messages))
            alice.tell(Halted(alice.messages[-1].operation))
            assert not (await moving).refusal
            for n in (9, 1):
                await publisher.publish({"n": n})
            await until(lambda: mallory.say(Ping()) or {"n": 1} in mallory.got)
            assert mallory.got == [{"n": 1}]
            for raw in (alice, mallory):
                await raw.close()

    run(story())
