"""The operators' port: its routing table, how it reads requests, and which connections it closes for others."""

import asyncio
import json
import re
import socket
from contextlib import asynccontextmanager
from http import HTTPMethod, HTTPStatus

import pytest

from pleach.access.principals import Verb
from pleach.net.allowed_hosts import Hosts
from pleach.server.http import open_connections, server
from pleach.server.http.caller import Caller, LoginWay, everybody
from pleach.server.http.open_connections import ConnectionStage, OpenConnection, OpenConnections, network_of
from pleach.server.http.page import HttpStream, json_page
from pleach.server.http.routes import PUBLIC_PATHS, Site, posts, reads
from pleach.server.http.server import AdminServer, site_of
from pleach.web.simulated_source import SimulatedSource
from pleach.web.site import Dashboard
from support.live.hostile_http import EXPECT, FOLLOWED, HUGE_HEADS, TWO_HOSTS, TWO_LENGTHS
from support.live.timed_node import in_world

# Routes ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def routes():
    found = []

    async def table(world):
        found.extend(site_of(world.node, lambda: None, Dashboard(SimulatedSource(3, 1)).routes).routes)

    in_world(table)
    return found


def test_every_route_needs_a_verb_but_the_two_public_ones_and_the_log_in(routes):
    public = {*PUBLIC_PATHS, *(f"/dashboard/{name}" for name in ("login.html", "login.js", "style.css", "icon.svg"))}
    assert len(routes) > 30
    assert {route.path for route in routes if route.verb is None} == public
    assert all(route.method is HTTPMethod.GET for route in routes if route.verb is None)
    assert all(isinstance(route.verb, Verb) for route in routes if route.path not in public)


def test_every_verb_is_needed_somewhere(routes):
    assert {route.verb for route in routes} == {None, *Verb}


def test_who_may_only_read_can_look_and_change_nothing(routes):
    """These are asked for by POST, and change neither the tree, nor a client, nor a table."""
    read_by_post = {"/traffic", "/dashboard/plan", *(f"/dashboard/{page}" for page in DETAILS)}
    posted = {route.path: route for route in routes if route.verb is Verb.READ and route.method is HTTPMethod.POST}
    assert {path for path, route in posted.items() if not route.changes} == read_by_post
    assert posted.keys() - read_by_post == {"/dashboard/apply"}  # it asks for the verb of what is in the plan
    assert all(route.verb in (None, Verb.READ) for route in routes if route.method is HTTPMethod.GET)


DETAILS = ("broker", "interest", "film")


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("/overlay/swap", Verb.REWEAVE),
        ("/overlay/add", Verb.REWEAVE),
        ("/overlay/move", Verb.MOVE),
        ("/overlay/remove", Verb.REMOVE),
        ("/debug/corrupt", Verb.FAULTS),
        ("/components/end", Verb.MOVE),
        ("/metrics", Verb.READ),
    ],
)
def test_the_verbs_of_routes(routes, path, verb):
    assert [route.verb for route in routes if route.path == path] == [verb]


def test_a_route_is_there_once():
    one = reads("/status", None)
    with pytest.raises(AssertionError, match="two routes"):
        Site([one, one], Hosts())


# Requests --------------------------------------------------------------------------------------------------------


class Port:
    """A port with a page and an action, that counts what is done."""

    def __init__(self, *more):
        """`more`: further routes."""
        self.done = []
        self._more = more
        self.server = None

    async def _look(self, _):
        return json_page(HTTPStatus.OK, {"alive": True})

    async def _act(self, asked):
        self.done.append(asked.body)
        return json_page(HTTPStatus.OK, {"done": len(self.done)})

    @asynccontextmanager
    async def open(self, recognise=everybody):
        routes = (
            *(reads(path, self._look) for path in ("/healthz", "/status")),
            posts("/overlay/expect", Verb.REWEAVE, self._act),
            *self._more,
        )
        self.server = await AdminServer(Site(routes, Hosts()), recognise=recognise).listen("127.0.0.1", 0)
        try:
            yield self
        finally:
            self.server.close()

    async def say(self, *data, end=False):
        """Send, and return all that comes back; the server hangs up."""
        reader, writer = await asyncio.open_connection(*self.server.sockets[0].getsockname())
        try:
            for piece in data:
                writer.write(piece)
                await asyncio.sleep(0)
            if end:
                writer.write_eof()
            async with asyncio.timeout(30):
                return await reader.read()
        finally:
            writer.close()


def asked(*data, recognise=everybody, **options):
    """The answer, and what was done."""

    async def go():
        async with Port().open(recognise) as port:
            return await port.say(*data, **options), port.done

    return asyncio.run(go())


def code_of(answer):
    assert len(re.findall(rb"HTTP/1\.1 \d", answer)) == 1, answer
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("request_", TWO_HOSTS)
def test_a_request_with_two_hosts_is_refused(request_):
    answer, _ = asked(request_)
    assert code_of(answer) in (400, 421)


@pytest.mark.parametrize("request_", TWO_LENGTHS)
def test_a_body_that_could_end_in_two_places_is_refused(request_):
    answer, done = asked(request_)
    assert code_of(answer) in (400, 411, 501)
    assert done == []


@pytest.mark.parametrize("request_", FOLLOWED)
def test_what_follows_a_request_is_not_another_one(request_):
    answer, done = asked(request_)
    assert code_of(answer) == 200
    assert done in ([], [b"{}"])
    assert b"Connection: close" in answer


@pytest.mark.parametrize("request_", HUGE_HEADS, ids=["a long field", "many fields", "a long path", "a folded field"])
def test_a_head_is_bounded(request_):
    answer, _ = asked(request_)
    assert code_of(answer) == 431


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (b"Content-Type: application/json\r\nContent-Length: 8193\r\n", 413),
        (b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n", 413),
        (b"Content-Type: application/json\r\n", 411),
        (b"Content-Length: 2\r\n", 415),
        (b"Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n", 415),
        (b"Content-Type: application/json\r\nContent-Length: 2\r\nOrigin: http://evil.example\r\n", 403),
        (b"Content-Type: application/json\r\nContent-Length: 2\r\nX: a\x00b\r\n", 400),
    ],
)
def test_other_requests_that_are_refused(fields, code):
    answer, done = asked(b"POST /overlay/expect HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n{}")
    assert code_of(answer) == code
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["remedy"]
    assert done == []


def test_a_body_may_come_in_pieces_and_after_a_question():
    head, _, body = EXPECT.partition(b"\r\n\r\n")
    answer, done = asked(head + b"\r\nExpect: 100-continue\r\n\r\n", body[:3], body[3:])
    assert answer.startswith(b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 OK\r\n")
    assert done == [body]


def test_half_a_body_is_none():
    answer, done = asked(EXPECT[:-1], end=True)
    assert answer == b""
    assert done == []


def test_a_method_that_a_path_does_not_have_is_told_with_those_that_it_has():
    answer, _ = asked(b"POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    assert code_of(answer) == 405
    assert b"Allow: GET\r\n" in answer
    head, _ = asked(b"HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert code_of(head) == 405
    assert head.endswith(b"\r\n\r\n")


def test_a_caller_without_the_verb_is_refused_before_the_body_is_read():
    def reader(evidence):
        return Caller(evidence.address, frozenset({Verb.READ}), "ann", LoginWay.TOKEN)

    answer, done = asked(EXPECT, recognise=reader)
    assert code_of(answer) == 403
    assert b"'reweave'" in answer
    assert done == []
    assert code_of(asked(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n", recognise=reader)[0]) == 200


def test_who_has_not_logged_in_is_told_how_and_gets_what_is_public():
    def nobody(evidence):
        return Caller(evidence.address, frozenset(), complaint="the token has expired")

    answer, _ = asked(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n", recognise=nobody)
    assert code_of(answer) == 401
    assert b"\r\nWWW-Authenticate: Bearer" in answer
    assert b"the token has expired" in answer
    answer, done = asked(EXPECT, recognise=nobody)
    assert (code_of(answer), done) == (401, [])
    assert code_of(asked(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", recognise=nobody)[0]) == 200


def test_a_stream_ends_for_good_when_whoever_takes_it_may_not_any_more():
    made = []

    async def pieces():
        for number in range(6):
            made.append(number)
            yield f"piece {number}".encode()

    async def watch(_):
        return HttpStream("text/plain", pieces())

    def reader_but_for_a_while(evidence):
        return Caller(evidence.address, frozenset({Verb.READ} if len(made) != 4 else ()), "ann", LoginWay.TOKEN)

    async def go():
        async with Port(reads("/events", watch)).open(reader_but_for_a_while) as port:
            return await port.say(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")

    answer = asyncio.run(go())
    assert code_of(answer) == 200
    assert re.findall(rb"piece \d", answer) == [b"piece 0", b"piece 1", b"piece 2"]
    assert made == [0, 1, 2, 3]
    assert answer.endswith(b"\r\n0\r\n\r\n")  # it is told that this was the end


def test_a_request_must_come_soon(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.1)
    assert asked()[0] == b""
    assert asked(b"GET /healthz HT")[0] == b""


def test_what_is_public_is_answered_when_nothing_else_is(monkeypatch):
    monkeypatch.setattr(open_connections, "ANSWERED_AT_ONCE_MAX", 0)
    assert code_of(asked(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")[0]) == 503
    assert code_of(asked(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")[0]) == 200


def test_who_has_sent_a_request_is_answered_before_it_could_be_closed_for_others(monkeypatch):
    """All of them come at once, and each has asked."""
    monkeypatch.setattr(open_connections, "WAITING_PER_ADDRESS_MAX", 4)

    async def go():
        async with Port().open() as port:
            there = [socket.create_connection(port.server.sockets[0].getsockname()) for _ in range(50)]
            for each in there:
                each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return await asyncio.gather(*map(answer_of, there))

    async def answer_of(connection):
        reader, writer = await asyncio.open_connection(sock=connection)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        return answer

    assert {code_of(answer) for answer in asyncio.run(go())} == {200}


# Connections -----------------------------------------------------------------------------------------------------


class Crowd:
    def __init__(self):
        self.connections = OpenConnections()
        self.closed = []

    def come(self, name, address="10.0.0.1", *, unread=False):
        new = OpenConnection(network_of(address), lambda: self.closed.append(name), lambda: unread)
        self.connections.opened(new)
        return new


def test_the_oldest_of_an_address_that_has_too_many_goes(monkeypatch):
    monkeypatch.setattr(open_connections, "WAITING_PER_ADDRESS_MAX", 2)
    crowd = Crowd()
    for name in ("a", "b", "c", "d"):
        crowd.come(name)
    crowd.come("other", "10.0.0.2")
    assert crowd.closed == ["a", "b"]


def test_the_oldest_of_the_address_that_has_most_goes_where_there_are_too_many_in_all(monkeypatch):
    monkeypatch.setattr(open_connections, "WAITING_MAX", 3)
    crowd = Crowd()
    crowd.come("honest", "10.0.0.9")
    for name in ("a", "b", "c", "d"):
        crowd.come(name)
    assert crowd.closed == ["a", "b"]


def test_who_has_sent_something_or_is_being_answered_is_not_closed(monkeypatch):
    monkeypatch.setattr(open_connections, "WAITING_PER_ADDRESS_MAX", 1)
    crowd = Crowd()
    crowd.connections.answering(crowd.come("operation"))
    crowd.come("asks", unread=True)
    crowd.come("silent")
    assert crowd.closed == []  # nor is the newest one
    crowd.come("asks too", unread=True)
    assert crowd.closed == ["silent"]
    slow = crowd.come("takes its time", unread=True)
    crowd.connections.sending(slow, 1)
    crowd.come("asks as well", unread=True)
    assert crowd.closed == ["silent", "takes its time"]


def test_answers_that_nobody_takes_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(open_connections, "UNSENT_BYTES_MAX", 100)
    crowd = Crowd()
    for name, size in (("a", 40), ("b", 40), ("c", 90), ("large", 500)):
        new = crowd.come(name)
        crowd.connections.sending(new, size)
        assert new.stage is ConnectionStage.SENDING
    assert crowd.closed == ["a", "b", "c"]


def test_addresses_of_one_host_count_as_one():
    assert network_of("2001:db8::1") == network_of("2001:db8::2:3")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
