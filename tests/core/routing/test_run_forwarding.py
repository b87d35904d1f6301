"""Runs that pass through a broker as a whole come to the same as their messages one by one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.broker import Broker
from pleach.core.effects import Send
from pleach.core.events.event import EVENT_BYTES_MAX, Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Attach,
    Deliver,
    Detach,
    Forward,
    Install,
    Layer,
    Publish,
    Published,
    Subscribe,
    Unsubscribe,
)
from pleach.core.messages.runs import RUN_BYTES_MAX, Run, encode_event, encode_run
from pleach.core.routing import run_forwarding
from pleach.core.routing.router import RoutingConfig

FILTERS = [parse_filter(text) for text in ("x = 1", "x > 1", "EXISTS y", "y = 'a' AND x = 2")]
SENDERS = ("c", "d", "n", "m")  # two clients, two neighbours
PUBLISHERS = ("c", "d", "far")  # of what neighbours send: clients that are here by now, and others


def event(sequence, attributes, publisher="c", payload=b""):
    return Event(EventId(publisher, 7, sequence), attributes, payload)


def run_of(kind, *events):
    """A run, also of one event."""
    body = encode_run(kind, len(events) + 1, b"".join(map(encode_event, events)))
    return Run(body[:3] + len(events).to_bytes(2) + body[5:])


def broker(config=None):
    made = Broker("b", config or RoutingConfig(), neighbours=["n", "m"], parent="n")
    made.handle("c", Attach(), now=0.0)
    made.handle("d", Attach(own_events=False), now=0.0)
    return made


def per_peer(effects):
    """What each peer gets, in order, confirmations one by one."""
    got = {}
    for effect in effects:
        assert isinstance(effect, Send)
        message = effect.message
        parts = [Published(each) for each in message.event_ids] if isinstance(message, Published) else [message]
        got.setdefault(effect.to, []).extend(parts)
    return got


def passed_on(run, passed):
    """The same, of a run that was handled as a whole."""
    events = run.events()
    sends = []
    for start, end, neighbours, clients in passed.spans:
        for each in events[start:end]:
            sends += [Send(to, Forward(each)) for to in neighbours] + [Send(to, Deliver(each)) for to in clients]
    return per_peer([*sends, *passed.effects])


@st.composite
def steps(draw):
    """Subscriptions come and go, and runs pass between them."""
    kind = draw(st.sampled_from(["run", "run", "run", "subscribe", "unsubscribe", "install", "attach", "detach"]))
    values = st.fixed_dictionaries({}, optional={"x": st.integers(0, 3), "y": st.sampled_from("ab")})
    contents = st.lists(st.tuples(st.sampled_from(PUBLISHERS), values), min_size=1, max_size=6)
    return kind, draw(st.sampled_from(SENDERS)), draw(st.integers(0, 3)), draw(contents)


@settings(deadline=None)
@given(
    walk=st.lists(steps(), max_size=25),
    config=st.sampled_from(
        [RoutingConfig(), RoutingConfig(policy="flooding"), RoutingConfig(hierarchical=True), RoutingConfig("simple")]
    ),
)
def test_as_a_whole_or_one_by_one(walk, config):
    whole, single = subscribed("x > 0", config), subscribed("x > 0", config)
    sequence = installs = 0
    for kind, sender, number, contents in walk:
        is_client = sender in "cd"
        installs += 1
        requests = {
            "subscribe": Subscribe(f"s{number}", FILTERS[number]),
            "unsubscribe": Unsubscribe(f"s{number}"),
            "attach": Attach(own_events=number % 2 == 0),
            "detach": Detach(),
        }
        install = Install(Layer.SUBSCRIPTIONS, installs, f"o{number}", FILTERS[number])
        if kind != "run":
            for each in (whole, single):
                each.handle(sender, requests.get(kind, Attach()) if is_client else install, now=0.0)
            continue
        events = [
            event(sequence + n, values, sender if is_client else publisher)
            for n, (publisher, values) in enumerate(contents, 1)
        ]
        sequence += len(events)
        message = Publish if is_client else Forward
        run = run_of(message, *events)
        passed = whole.handle_run(sender, run)
        effects = [effect for each in events for effect in single.handle(sender, message(each), now=0.0)]
        if passed is None:
            assert is_client
            assert sender not in whole.sessions
        else:
            assert passed_on(run, passed) == _in_turn(per_peer(effects), sender)
    assert whole.capture() == single.capture()


def _in_turn(got, publisher):
    """Of a run the publisher gets its own events first, then their confirmations."""
    mine = got.get(publisher, [])
    if mine:
        got[publisher] = sorted(mine, key=lambda message: isinstance(message, Published))
    return got


def test_who_does_not_want_its_own_events_does_not_get_them_from_afar_either():
    """It has come here while they travelled; what is another's is for it all the same."""
    made = subscribed()
    for client in "de":
        made.handle(client, Attach(own_events=client == "e"), now=0.0)
        made.handle(client, Subscribe("s", parse_filter("EXISTS x")), now=0.0)
    events = [event(n, {"x": 1}, publisher) for n, publisher in enumerate(["far", "c", "d", "d", "far"], 1)]
    run = run_of(Forward, *events)
    passed = made.handle_run("n", run)
    assert [(start, end, clients) for start, end, _, clients in passed.spans] == [
        (0, 2, ("d", "e")),
        (2, 4, ("e",)),
        (4, 5, ("d", "e")),
    ]
    assert passed_on(run, passed) == per_peer(
        effect for each in events for effect in made.handle("n", Forward(each), now=0.0)
    )


def subscribed(text="EXISTS x", config=None):
    made = broker(config)
    made.handle("d", Subscribe("s", parse_filter(text)), now=0.0)
    return made


DOUBTFUL = {
    "of another publisher": [event(1, {"x": 1}), event(2, {"x": 1}, publisher="z")],
    "with a gap": [event(1, {"x": 1}), event(3, {"x": 1})],
    "twice the same": [event(1, {"x": 1}), event(1, {"x": 1})],
    "with a list for a value": [event(1, {"x": 1}), event(2, {"x": [1]})],
    "with a number that never was": [event(0, {"x": 1}), event(1, {"x": 1})],
    "with a number too large": [event(2**63 - 1, {"x": 1}), event(2**63, {"x": 1})],
}


@pytest.mark.parametrize("events", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_run_with_an_event_that_may_have_to_be_refused_is_handled_one_by_one(events):
    assert subscribed().handle_run("c", run_of(Publish, *events)) is None


def test_too_large_an_event_is_noticed_though_its_attributes_are_known(monkeypatch):
    made = subscribed()
    assert made.handle_run("c", run_of(Publish, event(1, {"x": 1}))) is not None
    assert RUN_BYTES_MAX < EVENT_BYTES_MAX  # so that the bound has to be lowered to be met
    monkeypatch.setattr(run_forwarding, "EVENT_BYTES_MAX", 100)
    again = subscribed()
    assert again.handle_run("c", run_of(Publish, event(1, {"x": 1}), event(2, {"x": 1}, payload=bytes(90)))) is not None
    assert again.handle_run("c", run_of(Publish, event(3, {"x": 1}, payload=bytes(92)))) is None


def test_who_is_not_known_gets_no_short_way():
    made = subscribed()
    assert made.handle_run("stranger", run_of(Publish, event(1, {"x": 1}, publisher="stranger"))) is None
    assert made.handle_run("c", run_of(Forward, event(1, {"x": 1}))) is None
    assert made.handle_run("n", run_of(Publish, event(1, {"x": 1}, publisher="n"))) is None


def test_where_advertisements_gate_publishing_each_event_is_judged_by_itself():
    made = subscribed(config=RoutingConfig(advertisements=True))
    assert made.handle_run("c", run_of(Publish, event(1, {"x": 1}))) is None


def test_bytes_that_are_no_attributes_are_an_error_and_not_passed_on():
    good = encode_event(event(1, {"x": 1}))
    bad = good.replace(msgspec.msgpack.encode({"x": 1}), msgspec.msgpack.encode("text"))
    run = Run(encode_run(Publish, 2, good + bad.replace(b"\x07\x01", b"\x07\x02")))
    with pytest.raises(msgspec.DecodeError):
        subscribed().handle_run("c", run)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(run_forwarding, "ROUTES_MAX", 10)
    made = subscribed()
    for n in range(1, 100):
        attributes = {"x": n, "text": "t" * (run_forwarding.KEY_BYTES_MAX if n % 2 else 1)}
        run = run_of(Publish, event(n, attributes))
        assert passed_on(run, made.handle_run("c", run))["d"] == [Deliver(event(n, attributes))]
        remembered = [key for routes in made._passage._routes.values() for key in routes]
        assert len(remembered) <= 10
        assert all(len(key) <= run_forwarding.KEY_BYTES_MAX for key in remembered)


def test_what_was_remembered_of_receivers_is_bounded_too(monkeypatch):
    """Also where the attributes are too long to be remembered, and every event goes to others."""
    monkeypatch.setattr(run_forwarding, "ROUTES_MAX", 10)
    made = broker()
    for n in range(8):
        made.handle(f"c{n}", Attach(), now=0.0)
        made.handle(f"c{n}", Subscribe("s", parse_filter(f"b{n} = 1")), now=0.0)
    for n in range(1, 256):
        bits = {f"b{k}": n >> k & 1 for k in range(8)}
        run = run_of(Publish, event(n, {**bits, "text": "t" * run_forwarding.KEY_BYTES_MAX}))
        assert len(passed_on(run, made.handle_run("c", run))) == n.bit_count() + 1
        assert len(made._passage._known) <= 10
