"""Rights of a broker's clients: what they ask for, publish and get, and what changes when rights do."""

import pytest

from pleach.core.access.client_access import EXPECTED_MAX
from pleach.core.access.rights import EVERYTHING, FALSE, NOTHING, TRUE, Rights, conjunction
from pleach.core.broker import Broker
from pleach.core.effects import Concluded, Send, Withhold
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.hosting.running_sum import BUILT_IN
from pleach.core.messages import (
    OPERATOR,
    Advertise,
    Advertised,
    Attach,
    Deliver,
    Detach,
    Forward,
    Handover,
    Install,
    Installed,
    Layer,
    Permit,
    Publish,
    Published,
    PublishRefused,
    Refused,
    Rejudge,
    RemoveAck,
    RemoveReq,
    RequestHost,
    RequestRemove,
    Said,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Withdraw,
    decode,
    encode,
)
from pleach.core.messages.runs import Run, encode_event, encode_run
from pleach.core.overlay.membership.machine import Membership
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError

EU, US = parse_filter("region = 'eu'"), parse_filter("region = 'us'")
LOW, LOW_EU = parse_filter("level < 5"), parse_filter("level < 5 AND region = 'eu'")


def may(subscribe=TRUE, publish=TRUE, advertise=TRUE, hidden=(), *, strict=False):
    return Rights(publish, subscribe, advertise, tuple(hidden), strict)


def event(number=1, publisher="p", **attributes):
    return Event(EventId(publisher, 1, number), attributes)


class Network:
    """One broker with the neighbour n and the clients c (guarded) and p."""

    def __init__(self, config=RoutingConfig()):  # noqa: B008 frozen
        self.broker = Broker("b", config, neighbours=["n"])
        self.say("p", Attach())

    def say(self, sender, message):
        effects = list(self.broker.handle(sender, message, now=0.0))
        return [(each.to, each.message) if isinstance(each, Send) else each for each in effects]

    def permit(self, rights, client="c", principal="alice"):
        return self.say(OPERATOR, Permit(client, principal, rights))

    def subscribe(self, wanted, name="s"):
        return self.say("c", Subscribe(name, wanted, network_wide=False))

    def forward(self, sent):
        return self.say("n", Forward(sent))


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def narrow(network):
    """The client c may see what comes from the EU."""
    network.permit(may(EU))
    network.say("c", Attach())
    return network


def test_without_permits_nothing_changes(network):
    network.say("c", Attach())
    assert ("c", Subscribed("s")) in network.subscribe(LOW)
    assert network.broker.sessions.unjudged == []


def test_a_request_within_the_right_is_confirmed_as_always(narrow):
    assert ("c", Subscribed("s")) in narrow.subscribe(LOW_EU)


def test_a_wider_request_is_narrowed_and_the_client_is_told(narrow):
    told = narrow.subscribe(LOW)
    assert ("c", Subscribed("s", LOW_EU)) in told
    assert [message.filter for to, message in told if to == "n"] == [LOW_EU], "routing carries the effective filter"
    assert narrow.forward(event(region="us", level=1)) == []
    assert narrow.forward(event(region="eu", level=1)) == [("c", Deliver(event(region="eu", level=1)))]


def test_a_strict_right_refuses_instead(narrow):
    narrow.permit(may(EU, strict=True))
    ((to, refused),) = narrow.subscribe(LOW)
    assert (to, type(refused), refused.subject, refused.filter) == ("c", Refused, "s", LOW)


def test_a_request_beyond_the_right_is_refused(narrow):
    ((_, refused),) = narrow.subscribe(US)
    assert (refused.layer, refused.filter) == (Layer.SUBSCRIPTIONS, US)
    assert narrow.broker.sessions.subscriptions("c") == {}


def test_narrowed_requests_are_idempotent_and_a_name_stands_for_what_was_asked(narrow):
    narrow.subscribe(LOW)
    assert narrow.subscribe(LOW) == [("c", Subscribed("s", LOW_EU))]
    ((_, refused),) = narrow.subscribe(LOW_EU)
    assert "stands for 'level < 5'" in refused.reason
    assert ("n", Withdraw(Layer.SUBSCRIPTIONS, "", LOW_EU)) in narrow.say("c", Unsubscribe("s"))


def test_a_renewal_is_judged_and_renews_the_effective_entry(narrow):
    renewal = Subscribe("s", LOW, renews=True)
    (installed,) = narrow.say("c", renewal)
    assert installed[1].filter == LOW_EU
    assert narrow.say("c", renewal) == []
    assert narrow.broker.sessions.subscriptions("c") == {"s": LOW_EU}
    ((_, refused),) = narrow.say("c", Subscribe("t", US, renews=True))
    assert isinstance(refused, Refused)


def test_a_damaged_effective_filter_is_mended_by_a_renewal(narrow):
    narrow.subscribe(LOW)
    narrow.broker.sessions._clients["c"].subscriptions["s"] = LOW
    narrow.say("c", Subscribe("s", LOW, renews=True))
    assert narrow.broker.sessions.subscriptions("c") == {"s": LOW_EU}


def test_what_is_hidden_can_neither_be_asked_for_nor_seen(narrow):
    narrow.permit(may(EU, hidden=["salary"]))
    ((_, refused),) = narrow.subscribe(parse_filter("salary > 5"))
    assert "salary" in refused.reason
    narrow.subscribe(TRUE)
    narrow.say("p", Subscribe("q", TRUE, network_wide=False))
    sent = event(region="eu", salary=9)
    assert narrow.forward(sent) == [("c", Deliver(event(region="eu"))), ("p", Deliver(sent))]


def test_of_several_hidden_attributes_each_is_hidden_by_itself(narrow):
    narrow.permit(may(hidden=["grade", "salary"]))
    narrow.subscribe(TRUE)
    assert narrow.forward(event(region="eu", salary=9)) == [("c", Deliver(event(region="eu")))]
    assert narrow.broker.handle_run("n", run_of(Forward, event(1, salary=1), event(2, salary=2))) is None


def test_a_right_that_names_what_is_hidden_is_told_without_it(narrow):
    narrow.permit(may(parse_filter("region = 'eu' AND salary < 5"), hidden=["salary"]))
    assert ("c", Subscribed("s", LOW_EU)) in narrow.subscribe(LOW)
    assert narrow.forward(event(region="eu", level=1, salary=9)) == []


# Publishing -----------------------------------------------------------------------------------------------------


def run_of(kind, *events):
    return Run(encode_run(kind, len(events), b"".join(map(encode_event, events))))


def test_an_event_beyond_the_right_is_refused_by_name(narrow):
    narrow.permit(may(publish=EU))
    good, bad = event(1, "c", region="eu"), event(2, "c", region="us")
    assert ("c", Published(good.id)) in narrow.say("c", Publish(good))
    ((_, refused),) = narrow.say("c", Publish(bad))
    assert (type(refused), refused.event) == (PublishRefused, bad.id)


def test_a_run_with_an_event_beyond_the_right_goes_message_by_message(narrow):
    narrow.permit(may(publish=EU))
    good, bad = event(1, "c", region="eu"), event(2, "c", region="us")
    assert narrow.broker.handle_run("c", run_of(Publish, good, event(2, "c", region="eu"))) is not None
    for _ in range(2):  # also where the route is remembered
        assert narrow.broker.handle_run("c", run_of(Publish, good, bad)) is None
        assert (
            narrow.broker.handle_run("c", run_of(Publish, event(3, "c", region="us"), event(4, "c", region="us")))
            is None
        )


def test_a_permit_forgets_remembered_routes(narrow):
    run = run_of(Publish, event(1, "c", region="us"), event(2, "c", region="us"))
    assert narrow.broker.handle_run("c", run) is not None
    narrow.permit(may(publish=EU))
    assert narrow.broker.handle_run("c", run) is None


def test_a_run_for_a_client_from_which_something_is_hidden_goes_message_by_message(narrow):
    narrow.permit(may(hidden=["salary"]))
    narrow.subscribe(TRUE)
    assert narrow.broker.handle_run("n", run_of(Forward, event(1, salary=1), event(2, salary=2))) is None
    assert narrow.broker.handle_run("n", run_of(Forward, event(1, level=1), event(2, level=2))) is not None


# Changed rights ---------------------------------------------------------------------------------------------------


def test_a_narrower_right_is_in_effect_without_a_gap(narrow):
    narrow.permit(EVERYTHING)
    narrow.subscribe(LOW)
    effects = narrow.permit(may(EU))
    assert effects[0] == Withhold("c", may(EU))
    kinds = [type(message) for to, message in effects[1:] if to == "n"]
    assert kinds == [Install, Withdraw], "the new entry first"
    assert narrow.forward(event(region="us", level=1)) == []
    assert narrow.forward(event(region="eu", level=1)) != []


def test_a_wider_right_gives_back_what_was_asked_for(narrow):
    narrow.subscribe(LOW)
    effects = narrow.permit(EVERYTHING)
    assert not [each for each in effects if isinstance(each, Withhold)]
    (install,) = [message for to, message in effects if to == "n" and isinstance(message, Install)]
    assert install.filter == LOW
    assert effects[-1] == ("c", Subscribed("s", is_change=True))


def test_a_request_that_is_not_answered_yet_is_answered_once_when_the_wider_filter_is_in_effect(narrow):
    (first,) = [message for to, message in narrow.say("c", Subscribe("s", LOW)) if to == "n"]
    effects = narrow.permit(EVERYTHING)
    (second,) = [message for to, message in effects if to == "n" and isinstance(message, Install)]
    assert not [each for each in effects if each[0] == "c"]
    assert narrow.say("n", Installed(Layer.SUBSCRIPTIONS, first.number)) == []
    assert narrow.say("n", Installed(Layer.SUBSCRIPTIONS, second.number)) == [("c", Subscribed("s"))]


def test_a_request_that_is_not_answered_yet_is_answered_once_where_nobody_need_be_told():
    """What is left of it overlaps no advertisement."""
    network = Network(RoutingConfig(advertisements=True))
    network.say("n", Install(Layer.ADVERTISEMENTS, 1, "", US))
    network.say("c", Attach())
    (install,) = [message for to, message in network.say("c", Subscribe("s", LOW)) if to == "n"]
    told = [each for each in network.permit(may(EU))[1:] if each[0] == "c"]
    assert told == [("c", Subscribed("s", LOW_EU))]
    assert network.say("n", Installed(Layer.SUBSCRIPTIONS, install.number)) == []


def test_a_withdrawn_right_ends_the_subscription_and_the_client_is_told(narrow):
    narrow.subscribe(LOW)
    effects = narrow.permit(may(FALSE))
    (refused,) = [message for to, message in effects[1:] if to == "c"]
    assert (type(refused), refused.subject, refused.filter) == (Refused, "s", LOW)
    assert narrow.forward(event(region="eu", level=1)) == []
    assert narrow.broker.sessions.names == 0


def test_the_same_right_again_changes_nothing(narrow):
    narrow.subscribe(LOW)
    assert narrow.permit(may(EU)) == []
    assert narrow.permit(may(EU), principal="bob") == []
    assert narrow.broker.sessions.access_of("c").principal == "bob"


def test_while_a_changed_advertisement_is_unconfirmed_events_must_match_both():
    """Subscriptions to the rest may not be known here yet."""
    network = Network(RoutingConfig(advertisements=True))
    network.permit(may(advertise=EU))
    network.say("c", Attach())
    (install,) = [m for to, m in network.say("c", Advertise("a", LOW)) if to == "n"]
    told = network.say("n", Installed(Layer.ADVERTISEMENTS, install.number))
    assert told == [("c", Advertised("a", LOW_EU))]
    effects = network.permit(EVERYTHING)
    (install,) = [message for to, message in effects if to == "n" and isinstance(message, Install)]
    eu, us = event(1, "c", region="eu", level=1), event(2, "c", region="us", level=1)
    assert ("c", Published(eu.id)) in network.say("c", Publish(eu))
    assert isinstance(network.say("c", Publish(us))[-1][1], PublishRefused)
    assert network.say("n", Installed(Layer.ADVERTISEMENTS, install.number)) == [("c", Advertised("a"))]
    assert ("c", Published(us.id)) in network.say("c", Publish(us))


def test_what_was_removed_from_events_that_wait_counts_as_unknown(narrow):
    """Without its price, an event that waits would seem to have none."""
    narrow.permit(may(hidden=["price"]))
    withhold = narrow.permit(may(parse_filter("NOT EXISTS price OR price <= 3 OR region = 'eu'")))[0]
    assert withhold.rights.subscribe == parse_filter("price <= 3 OR region = 'eu'")
    withhold = narrow.permit(may(parse_filter("NOT EXISTS price")))[0]
    assert withhold.rights.subscribe == FALSE, "for as long as the client is here"


def test_what_a_tenant_never_has_is_known_to_be_missing(narrow):
    scope = parse_filter("NOT EXISTS tenant")
    wide, small = (Rights(TRUE, conjunction(scope, right), TRUE, ("tenant",), scope=scope) for right in (TRUE, EU))
    narrow.permit(wide)
    assert narrow.permit(small)[0] == Withhold("c", small)
    other = Rights(TRUE, parse_filter("NOT EXISTS tenant AND level = 1"), TRUE, ("tenant",))
    assert narrow.permit(other)[0].rights.subscribe == FALSE, "of another tenant until now"


# Who is known -----------------------------------------------------------------------------------------------------


def test_only_the_driver_gives_rights(narrow):
    for sender in ("c", "n", "x"):
        with pytest.raises(ProtocolError):
            narrow.say(sender, Permit("c", "alice", EVERYTHING))


def test_a_rejudgement_in_the_name_of_nobody_is_silent(network):
    assert network.say("nobody", Rejudge()) == []


def test_with_a_guard_a_client_without_a_permit_may_do_nothing_until_it_is_judged(network):
    network.say(OPERATOR, Permit("", "", NOTHING))
    network.say("c", Attach())
    ((_, refused),) = network.subscribe(EU)
    assert isinstance(refused, Refused)
    assert network.broker.sessions.unjudged == ["c", "p"], "p was here before the guard"
    network.permit(may(EU))
    assert network.broker.sessions.unjudged == ["p"]
    assert ("c", Subscribed("s")) in network.subscribe(EU)


def test_rights_outlive_a_client_that_has_lost_its_memory(network):
    network.say(OPERATOR, Permit("", "", NOTHING))
    network.permit(may(EU))
    network.say("c", Attach())
    network.subscribe(LOW)
    network.broker.peer_reset("c")
    network.say("c", Attach())
    assert ("c", Subscribed("s", LOW_EU)) in network.subscribe(LOW)


def test_a_guard_voids_permits_of_absent_clients(network):
    network.say(OPERATOR, Permit("", "", NOTHING))
    network.permit(may(EU))
    network.say(OPERATOR, Permit("", "", NOTHING))
    assert network.broker.sessions.access_of("c") is None


def test_permits_of_clients_that_never_come_do_not_pile_up(network):
    for number in range(EXPECTED_MAX + 100):
        network.permit(may(EU), client=f"c{number}")
    assert len(network.broker.sessions.expected.expected) == EXPECTED_MAX


def test_without_a_guard_a_client_that_leaves_leaves_nothing(narrow):
    narrow.say("c", Detach())
    assert narrow.broker.sessions.access_of("c") is None


def test_rights_are_part_of_the_state(narrow):
    narrow.say(OPERATOR, Permit("", "", NOTHING))
    narrow.permit(may(EU, hidden=["salary"]))
    narrow.permit(may(US), client="later")
    narrow.subscribe(LOW)
    again = Broker("b", RoutingConfig())
    again.restore(narrow.broker.capture())
    assert again.capture() == narrow.broker.capture()
    sessions = again.sessions
    assert sessions.access_of("c").rights == may(EU, hidden=["salary"])
    assert sessions.access_of("c").asked[Layer.SUBSCRIPTIONS] == {"s": LOW}
    assert sessions.access_of("later").rights == may(US)
    assert sessions.unjudged == ["p"]
    (delivered,) = again.handle("n", Forward(event(region="eu", level=1, salary=9)), now=0.0)
    assert delivered.message == Deliver(event(region="eu", level=1))


# Clients that go elsewhere ----------------------------------------------------------------------------------------


def test_a_client_takes_its_rights_and_what_it_asked_for_to_its_new_broker(narrow):
    """They hold there until the new broker's driver has judged the client by its own settings."""
    narrow.subscribe(LOW)
    handover = Handover("1", [narrow.broker.sessions.hand_over("c")])
    heir = Broker("a", RoutingConfig(), neighbours=["b"], machines=[Membership])
    heir.handle(OPERATOR, Permit("", "", NOTHING), now=0.0)
    heir.handle("b", RemoveReq("1"), now=0.0)
    heir.handle("b", decode(encode(handover)), now=0.0)
    assert heir.sessions.subscriptions("c") == {"s": LOW_EU}
    assert heir.sessions.unjudged == ["c"]
    assert heir.sessions.access_of("c").principal == "alice"
    heir.handle(OPERATOR, Permit("c", "alice", may(US)), now=0.0)
    assert heir.sessions.subscriptions("c") == {"s": parse_filter("level < 5 AND region = 'us'")}, "from what was asked"
    assert heir.sessions.unjudged == []


def test_a_client_that_was_handed_over_is_judged_by_its_new_broker_alone():
    leaving = Broker("b", RoutingConfig(), neighbours=["a"], machines=[Membership])
    leaving.handle("c", Attach(), now=0.0)
    leaving.handle("c", Subscribe("s", LOW, network_wide=False), now=0.0)
    leaving.handle(OPERATOR, RequestRemove("1", "b"), now=0.0)
    leaving.handle("a", RemoveAck("1"), now=0.0)
    assert [type(each) for each in leaving.handle(OPERATOR, Permit("c", "alice", may(EU)), now=0.0)] == [Withhold]
    assert leaving.handle("a", Forward(event(region="us", level=1)), now=0.0) == [], "but its rights hold at once"


def test_who_logs_in_at_a_broker_that_leaves_is_known_to_its_heir():
    leaving = Broker("b", RoutingConfig(), neighbours=["a"], machines=[Membership])
    leaving.handle("c", Attach(), now=0.0)
    leaving.handle(OPERATOR, RequestRemove("1", "b"), now=0.0)
    leaving.handle("a", RemoveAck("1"), now=0.0)
    leaving.handle(OPERATOR, Permit("late", "bob", may(EU)), now=0.0)
    (said,) = [e.message for e in leaving.handle("late", Attach(), now=0.0) if e.to == "a"]
    heir = Broker("a", RoutingConfig(), neighbours=["b"], machines=[Membership])
    heir.handle(OPERATOR, Permit("", "", NOTHING), now=0.0)
    heir.handle("b", RemoveReq("1"), now=0.0)
    heir.handle("b", Handover("1", []), now=0.0)
    heir.handle("b", decode(encode(said)), now=0.0)
    assert heir.sessions.access_of("late").principal == "bob"
    assert heir.sessions.unjudged == ["late"]
    told = heir.handle("b", Said("late", Subscribe("s", LOW, network_wide=False)), now=0.0)
    assert Send("late", Subscribed("s", LOW_EU)) in told


def test_a_component_has_the_rights_that_its_name_was_given():
    broker = Broker("b", RoutingConfig(), components=BUILT_IN)
    broker.handle(OPERATOR, Permit("", "", NOTHING), now=0.0)
    host = RequestHost("1", "sum", "running-sum", [parse_filter("EXISTS amount")])
    (refused,) = [e for e in broker.handle(OPERATOR, host, now=0.0) if isinstance(e, Concluded)]
    assert "right" in refused.refusal
    broker = Broker("b", RoutingConfig(), components=BUILT_IN)
    broker.handle(OPERATOR, Permit("", "", NOTHING), now=0.0)
    broker.handle(OPERATOR, Permit("sum", "sums", may(EU)), now=0.0)
    broker.handle(OPERATOR, Permit("p", "paul", EVERYTHING), now=0.0)
    assert Concluded("1") in broker.handle(OPERATOR, host, now=0.0)
    broker.handle("p", Attach(), now=0.0)
    broker.handle("p", Subscribe("s", parse_filter("EXISTS sums"), network_wide=False), now=0.0)
    totals = [_total(broker, number, region) for number, region in enumerate(("eu", "us", "eu"), 1)]
    broker.handle(OPERATOR, Permit("sum", "sums", may(US)), now=0.0)
    assert [*totals, _total(broker, 4, "eu"), _total(broker, 5, "us")] == [[1], [], [4], [], [9]]


def _total(broker, number, region):
    effects = broker.handle("p", Publish(event(number, region=region, amount=number)), now=0.0)
    return [e.message.event.attributes["total"] for e in effects if isinstance(getattr(e, "message", None), Deliver)]
