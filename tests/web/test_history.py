"""What glances tell, put together: operations of several brokers, and brokers that come and go."""

from pleach.operate.operation import OperationState, OperationStatus, OperationStep
from pleach.web import history
from pleach.web.history import History
from pleach.web.live_source import Rates
from pleach.web.snapshot import Broker


def taken(number, at, phase, held=0, flooded=0):
    return OperationStep(number, at, "op", phase, held, flooded)


def test_steps_of_all_brokers_make_one_story_in_order_of_time():
    seen = History()
    asked = OperationStatus("op", "swap", ("a", "b", "c"), asked_at=1.0)
    seen.add_operations("a", [asked], [taken(1, 1.1, "a locked", 5, 7), taken(2, 1.4, "a adopted", 9, 7)])
    seen.add_operations("b", [], [taken(1, 1.2, "b locked", 0, 0), taken(2, 1.5, "b adopted", 1, 30)])
    seen.add_operations("a", [asked], [taken(2, 1.4, "a adopted", 9, 7)])  # told again in the next glance
    told = seen.operations["op"]
    assert [(s.broker, s.phase) for s in told.steps.values()] == [
        ("a", "a locked"), ("b", "b locked"), ("a", "a adopted"), ("b", "b adopted"),
    ]  # fmt: skip
    assert (told.what, told.state) == ("swap", "running")
    assert (told.held, told.flooded) == (4 + 1, 0 + 30)


def test_an_operation_ends():
    seen = History()
    seen.add_operations("a", [OperationStatus("op", "swap", ("a", "b", "c"), asked_at=1.0)], [])
    seen.add_operations(
        "a", [OperationStatus("op", "swap", ("a", "b", "c"), OperationState.REFUSED, "", "busy", 1.0, 2.0)], []
    )
    told = seen.operations["op"]
    assert (told.state, told.reason, told.ended_at, told.held) == ("refused", "busy", 2.0, None)


def test_of_one_that_nobody_was_asked_for_the_steps_are_shown():
    seen = History()
    seen.add_operations("b", [], [taken(1, 1.0, "b locked")])
    assert seen.operations["op"].brokers == ("b",)
    assert seen.operations["op"].state == "unknown"


def test_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(history, "OPERATIONS_MAX", 3)
    seen = History()
    seen.add_operations("a", [OperationStatus(str(i), "swap", (), asked_at=float(10 - i)) for i in range(6)], [])
    assert sorted(seen.operations) == ["0", "1", "2"]


def test_the_first_look_is_no_news_and_changes_are():
    seen = History()
    seen.add_brokers({"a": Broker(), "b": Broker(), "c": Broker()}, 1.0)
    assert not seen.notices
    seen.add_brokers({"a": Broker(), "b": Broker(answers=False, trouble="refused"), "d": Broker()}, 2.0)
    seen.add_brokers({"a": Broker(), "b": Broker(), "d": Broker()}, 3.0)
    assert [(n.at, n.text, n.is_bad) for n in seen.notices.values()] == [
        (2.0, "b does not answer: refused", True),
        (2.0, "c has left the tree", False),
        (2.0, "d has joined the tree", False),
        (3.0, "b answers again", False),
    ]


def test_rates_are_per_second_and_survive_a_counter_that_begins_anew():
    rates = Rates()
    assert rates.of(("x",), 100, 1.0) == 0
    rates.turn()
    assert rates.of(("x",), 300, 3.0) == 100
    rates.turn()
    assert rates.of(("x",), 50, 4.0) == 50
    rates.turn()
    rates.turn()  # not read once: whoever comes back is new
    assert rates.of(("x",), 900, 6.0) == 0
