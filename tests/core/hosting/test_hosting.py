"""Components at one broker: what is refused, what fails, what is bounded, and what is on disk."""

from __future__ import annotations

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Concluded, Observe, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.hosting.component import PUBLICATIONS_MAX, STATE_BYTES_MAX, Publication
from pleach.core.hosting.machine import COMPONENTS_MAX, GO_ON, TURNS_MAX
from pleach.core.hosting.running_sum import BUILT_IN, RunningSum
from pleach.core.messages import (
    OPERATOR,
    Approve,
    Attach,
    Deliver,
    Forward,
    Install,
    Installed,
    Layer,
    MoveState,
    Negotiate,
    Publish,
    PublishRefused,
    Reject,
    RequestHost,
    RequestMove,
    RequestRemove,
    RequestUnhost,
    Subscribe,
    Withdraw,
)
from pleach.core.messages.runs import Run, encode_event, encode_run
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.registry import machines
from pleach.core.routing.entries import Entry
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ComponentError


class Echo(RunningSum):
    """Answers all that is said to it to the other one."""

    def on_event(self, event):
        return [Publication({"to": event.attributes["from"], "from": event.attributes["to"]})]


class Faulty(RunningSum):
    """Does what the event says."""

    def on_event(self, event):
        match event.attributes["do"]:
            case "raise":
                raise RuntimeError("nothing works")
            case "too much":
                return [Publication({"n": n}) for n in range(PUBLICATIONS_MAX + 1)]
            case "half":
                return [Publication({"n": 1}), Publication({"n": [1]})]
        return ()


class Heavy(RunningSum):
    def snapshot(self):
        return bytes(STATE_BYTES_MAX + 1)


class Growing(RunningSum):
    """Is too much to carry from a total on."""

    def snapshot(self):
        return bytes(STATE_BYTES_MAX + 1) if self._total > 9 else super().snapshot()


KINDS = {**BUILT_IN, "echo": Echo, "faulty": Faulty, "heavy": Heavy, "growing": Growing}


def made(kinds=KINDS, name="b"):
    protocols = [*machines("causal"), Mobility]
    broker = Broker(name, RoutingConfig("simple"), neighbours=["n"], machines=protocols, components=kinds)
    broker.handle("listener", Attach(), now=0.0)
    broker.handle("listener", Subscribe("s", parse_filter("EXISTS total")), now=0.0)
    return broker


def ask(broker, request):
    """What came of it: the reason of a refusal, or nothing."""
    effects = [*broker.handle(OPERATOR, request, now=0.0)]
    for install in sent(effects, Install):
        effects += broker.handle("n", Installed(install.layer, install.number), now=0.0)
    (end,) = [effect for effect in effects if isinstance(effect, Concluded)]
    return end.refusal


def host(broker, name, kind, *wanted):
    return ask(broker, RequestHost(f"host {name}", name, kind, [parse_filter(text) for text in wanted]))


def event(number=1, **attributes):
    return Event(EventId("p", 0, number), attributes)


def come(broker, number=1, **attributes):
    return broker.handle("n", Forward(event(number, **attributes)), now=0.0)


def run_of(**attributes):
    return Run(encode_run(Forward, 2, b"".join(encode_event(event(number, **attributes)) for number in (1, 2))))


def sent(effects, kind):
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def sums(effects):
    return [delivery.event.attributes["total"] for delivery in sent(effects, Deliver)]


ODD = ({"price": 1}, {"amount": "much"}, {"amount": 3})  # of which the last one can be summed


@pytest.fixture
def broker():
    broker = made()
    assert not host(broker, "k", "running-sum", "EXISTS amount")
    return broker


# Begin and end ------------------------------------------------------------------------------------------------------


def test_what_it_wants_is_told_to_neighbours_and_nothing_is_sent_to_it():
    broker = made()
    request = RequestHost("1", "k", "running-sum", [parse_filter("EXISTS amount")])
    effects = broker.handle(OPERATOR, request, now=0.0)
    assert [effect.to for effect in effects if isinstance(effect, Send)] == ["n"]
    assert [install.filter.text for install in sent(effects, Install)] == ["EXISTS amount"]


def test_it_has_begun_once_what_it_wants_is_in_effect():
    broker = made()
    request = RequestHost("1", "k", "running-sum", [parse_filter("EXISTS amount"), parse_filter("price > 1")])
    first, second = sent(broker.handle(OPERATOR, request, now=0.0), Install)
    assert not broker.handle("n", Installed(first.layer, first.number), now=0.0)[1:]
    assert "only beginning" in ask(broker, RequestUnhost("2", "k"))
    again = made()
    again.restore(broker.capture())
    assert Concluded("1") in again.handle("n", Installed(second.layer, second.number), now=0.0)


def test_one_that_cannot_have_what_it_wants_has_not_begun(monkeypatch):
    monkeypatch.setattr("pleach.core.routing.clients.NAMES_PER_CLIENT_MAX", 1)
    broker = made()
    request = RequestHost("1", "k", "running-sum", [parse_filter("EXISTS amount"), parse_filter("price > 1")])
    assert "at most" in ask(broker, request)
    assert broker.hosting.here["k"].has_failed
    assert "k" not in broker.sessions


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("k", "running-sum", "has a client k already"),
        ("n", "running-sum", "the name of a broker"),
        ("b", "running-sum", "the name of a broker"),
        ("j", "unheard-of", "running-sum"),
    ],
)
def test_what_cannot_be_hosted_is_refused(broker, name, kind, says):
    assert says in host(broker, name, kind)


def test_a_component_that_cannot_even_be_made_is_refused():
    def broken(name):
        raise OSError(f"no {name}")

    assert "OSError: no k" in host(made({"broken": broken}), "k", "broken")


def test_a_broker_that_is_locked_takes_none(broker):
    negotiate = Negotiate("1", broker.sessions.hand_over("k"), ["n", "b"], 0, "running-sum")
    assert sent(broker.handle("n", negotiate, now=0.0), Reject), "it has one of that name"
    broker.handle(OPERATOR, RequestMove("2", "k", ["b", "n"]), now=0.0)
    assert "locked for operation 2" in host(broker, "j", "running-sum")


def test_there_is_room_for_so_many(monkeypatch, broker):
    monkeypatch.setattr("pleach.core.hosting.machine.COMPONENTS_MAX", 1)
    assert COMPONENTS_MAX > 1
    assert "no more" in host(broker, "j", "running-sum")


def test_one_that_ends_takes_back_what_it_wanted_and_its_name_is_free(broker):
    effects = broker.handle(OPERATOR, RequestUnhost("2", "k"), now=0.0)
    assert len(sent(effects, Withdraw)) == 1
    assert "hosts no component" in ask(broker, RequestUnhost("3", "k"))
    assert not host(broker, "k", "running-sum", "EXISTS amount")
    assert sums(come(broker, amount=4)) == [4]


def test_a_broker_that_hosts_one_does_not_leave_the_tree(broker):
    assert "hosts components, which would end with it: k" in ask(broker, RequestRemove("2", "b"))


# Events -------------------------------------------------------------------------------------------------------------


def test_what_it_says_follows_what_led_to_it(broker):
    broker.handle("listener", Subscribe("t", parse_filter("EXISTS amount")), now=0.0)
    effects = come(broker, amount=4)
    assert [delivery.event.id.publisher for delivery in sent(effects, Deliver)] == ["p", "k"]


def test_what_has_no_number_to_sum_counts_as_nothing():
    broker = made()
    assert not host(broker, "k", "running-sum", "EXISTS amount", "EXISTS price")
    found = [come(broker, number, **attributes) for number, attributes in enumerate(ODD, start=1)]
    assert [total for effects in found for total in sums(effects)] == [0, 0, 3]


def test_two_that_answer_each_other_do_not_stop_the_broker():
    broker = made()
    for name, other in (("j", "k"), ("k", "j")):
        assert not host(broker, name, "echo", f"to = '{name}'"), other
    effects = come(broker, **{"to": "j", "from": "k"})
    assert effects[-1] == SetTimer(GO_ON, 0.0)
    assert broker.is_changed_by("n", Forward(event(price=1))), "they go on with whatever comes"
    assert broker.handle_run("n", run_of(price=1)) is None
    again = made()
    again.restore(broker.capture())
    assert SetTimer(GO_ON, 0.0) in again.resume(now=0.0)
    assert again.handle_timer(GO_ON, now=0.0)[-1] == SetTimer(GO_ON, 0.0)
    said = again.hosting.here["j"].client.draft({}).id.sequence + again.hosting.here["k"].client.draft({}).id.sequence
    assert TURNS_MAX < said <= 2 * TURNS_MAX + 4


@pytest.mark.parametrize("what", ["raise", "too much", "half"])
def test_one_that_fails_ends_and_others_go_on(broker, what):
    assert not host(broker, "f", "faulty", "EXISTS do")
    come(broker, 1, do="nothing")
    effects = come(broker, 2, do=what, amount=3)
    assert sums(effects) == [3]
    assert len(sent(effects, Withdraw)) == 1
    assert "f" not in broker.sessions
    assert broker.hosting.running == ["k"]
    assert broker.hosting.here["f"].complaint.startswith("on p/0/2")
    assert not come(broker, 3, do="raise")
    again = made()
    again.restore(broker.capture())
    assert again.hosting.running == ["k"]
    assert not ask(again, RequestUnhost("2", "f"))


# State --------------------------------------------------------------------------------------------------------------


def test_it_goes_on_from_disk_where_it_was(broker):
    come(broker, 1, amount=4)
    again = made()
    again.restore(broker.capture())
    assert again.capture() == broker.capture()
    assert sums(come(again, 2, amount=5)) == [9]


def test_settings_that_do_not_know_it_any_more_are_refused(broker):
    with pytest.raises(ComponentError, match="kind 'running-sum'; by its settings it knows: none"):
        made({}).restore(broker.capture())


def test_only_events_for_a_component_are_journalled(broker):
    assert broker.is_changed_by("n", Forward(event(amount=1)))
    assert not broker.is_changed_by("n", Forward(event(price=1)))
    assert not broker.is_changed_by("n", Forward(event(amount=[1]))), "it is no event, and refused"


def test_an_event_for_any_subscription_of_any_component_is_journalled(broker):
    assert not host(broker, "k2", "running-sum", "EXISTS weight", "EXISTS length")
    assert all(broker.is_changed_by("n", Forward(event(**{name: 1}))) for name in ("amount", "weight", "length"))
    assert not broker.is_changed_by("n", Forward(event(price=1)))


def test_an_event_that_only_a_damaged_table_sends_to_a_component_is_journalled(broker):
    """Else what it has changed in the component is forgotten by a restart, and the next event changes it again."""
    broker.router.add(Layer.SUBSCRIPTIONS, "k", Entry("", parse_filter("EXISTS price")), None)
    assert broker.is_changed_by("n", Forward(event(price=1)))


def test_a_run_with_an_event_for_a_component_is_taken_one_by_one(broker):
    assert broker.handle_run("n", run_of(price=1)) is not None
    assert broker.handle_run("n", run_of(amount=1)) is None


def test_an_invalid_event_is_refused_and_ends_no_connection(broker):
    """As where no component lives: nothing is raised on the way to the refusal."""
    publish = Publish(Event(EventId("listener", 0, 1), {"amount": [1]}))
    assert not broker.is_changed_by("listener", publish)
    (refused,) = sent(broker.handle("listener", publish, now=0.0), PublishRefused)
    assert "'amount'" in refused.reason


def test_one_that_gives_no_snapshot_does_not_begin():
    assert "its snapshot is 1,048,577 bytes; at most" in host(made(), "h", "heavy", "EXISTS amount")


def test_one_that_gives_no_snapshot_any_more_fails_with_the_event_that_led_to_it():
    broker = made()
    assert not host(broker, "g", "growing", "EXISTS amount")
    come(broker, 1, amount=9)
    assert broker.hosting.running == ["g"]
    effects = come(broker, 2, amount=1)
    assert not sums(effects), "what cannot be kept was not done"
    assert any("at most" in effect.detail for effect in effects if isinstance(effect, Observe))
    assert "g" not in broker.sessions
    assert "on p/0/2: its snapshot is" in broker.hosting.here["g"].complaint


def test_capturing_a_broker_asks_its_components_for_nothing():
    class Untaken(RunningSum):
        taken = 0

        def snapshot(self):
            Untaken.taken += 1
            return super().snapshot()

    broker = made({"untaken": Untaken})
    assert not host(broker, "u", "untaken", "EXISTS amount")
    come(broker, amount=1)
    before = Untaken.taken
    assert broker.capture() == broker.capture()
    assert Untaken.taken == before


# Moves --------------------------------------------------------------------------------------------------------------


def test_it_halts_within_the_step_and_goes_on_if_it_is_refused(broker):
    broker.handle(OPERATOR, RequestMove("2", "k", ["b", "n"]), now=0.0)
    assert sums(come(broker, 1, amount=1)) == [1]
    (state,) = sent(broker.handle("n", Approve("2"), now=0.0), MoveState)
    assert state.component
    assert "moves just now" in ask(broker, RequestUnhost("3", "k"))
    assert not sums(come(broker, 2, amount=2)), "what comes now is kept"
    assert sums(broker.handle("n", Reject("2", "not here"), now=0.0)) == [3]


def test_a_target_that_does_not_know_the_kind_says_so(broker):
    broker.handle(OPERATOR, RequestMove("2", "k", ["b", "n"]), now=0.0)
    client = broker.sessions.hand_over("k")
    other = made({}, name="n2")
    (reject,) = sent(other.handle("n", Negotiate("2", client, ["n", "n2"], 0, "running-sum"), now=0.0), Reject)
    assert "kind 'running-sum'" in reject.reason
    assert not reject.is_busy


@pytest.mark.parametrize("state", [b"nothing", b""])
def test_a_state_that_nobody_can_read_is_refused_by_the_target(broker, state):
    broker.handle(OPERATOR, RequestMove("2", "k", ["b", "n"]), now=0.0)
    client = broker.sessions.hand_over("k")
    other = made(name="n2")
    other.handle("n", Negotiate("2", client, ["n", "n2"], 0, "running-sum"), now=0.0)
    effects = other.handle("n", MoveState("2", client, [], state), now=0.0)
    assert bool(sent(effects, Reject)) == bool(state)
    assert "k" not in other.hosting.here
