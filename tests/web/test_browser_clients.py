"""Clients moved, and brokers drained, in a browser: with the mouse, the keyboard and a finger, and in the wrong way."""

import asyncio
import threading
from contextlib import ExitStack, contextmanager

import pytest

import pleach
from support.live.broker_process import eventually, processes
from support.web.chromium import Watched

pytestmark = pytest.mark.browser

ROOM = 2  # clients that broker `full` takes


class Guest:
    """A client in a loop of its own, that is there until it goes."""

    def __init__(self, loop, name, broker):
        self._loop = loop
        self._client = pleach.connect(f"pleach://{broker.ready['client']}", name=name, connect_timeout=60.0)
        self._await(self._client.__aenter__())
        self._await(self._client.subscribe(f"topic = '{name}'", callback=lambda _event: None))

    def leave(self):
        self._await(self._client.__aexit__(None, None, None))

    def _await(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)


@contextmanager
def running_loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory, browser):
    """fra – iad – nrt, and one that is full soon, at iad."""
    place = tmp_path_factory.mktemp("clients")
    settings = place / "full.toml"
    settings.write_text(f"[limits]\nclients = {ROOM}\n")
    with processes() as start:
        iad = start("iad", place, *(f"--neighbour={other}" for other in ("fra", "nrt", "full")), "--zone=west")
        there = {"iad": iad}
        for name, *more in (("fra", "--zone=east"), ("nrt", "--zone=west"), ("full", f"--config={settings}")):
            there[name] = start(name, place, f"--peer=iad={iad.ready['peer']}", *more)
        for broker in there.values():
            eventually(broker.is_ready)
        yield there


@pytest.fixture
def guests(brokers):
    """Come at a broker, and are gone after the test."""
    with running_loop() as loop, ExitStack() as stack:

        def come(broker, *names):
            for name in names:
                guest = Guest(loop, name, brokers[broker])
                stack.callback(guest.leave)
            return guest

        yield come


@contextmanager
def page_of(browser, brokers, **options):
    watched = Watched(browser, f"http://{brokers['iad'].ready['admin']}/dashboard/", **options)
    watched.until(f"Object.keys(p.brokers).length === {len(brokers)}")
    try:
        yield watched
    finally:
        watched.close()
    assert not watched.complaints


def test_a_client_is_moved_after_a_look_at_the_path(browser, brokers, guests):
    guests("fra", "mover")
    with page_of(browser, brokers) as watched:
        page = watched.page
        watched.until("p.clients.mover?.up")
        page.get_by_role("tab", name="Clients").click()
        page.get_by_role("button", name="mover").click()
        page.get_by_role("button", name="Move a client: this one").click()
        assert page.locator("#wish input[name=client]").input_value() == "mover"
        assert "fra" not in page.locator("#wish select[name=to] option").all_inner_texts()
        page.locator("#wish select[name=to]").select_option("nrt")
        page.get_by_role("button", name="Preview the plan").click()
        page.get_by_text("mover moves from fra to nrt").wait_for()
        page.get_by_text("mover: fra – iad – nrt").wait_for()
        page.get_by_text("→ nrt: 1 client").wait_for()
        assert page.evaluate("pleach.tree.preview.paths") == [["fra", "iad", "nrt"]]
        assert page.evaluate("pleach.store.picture.clients.mover.broker") == "fra"  # nothing is done yet
        page.get_by_role("button", name="Carry it out").click()
        watched.until("p.clients.mover.broker === 'nrt' && p.clients.mover.up")
        page.get_by_text("move mover fra iad nrt").wait_for()
        assert page.evaluate("pleach.tree.preview") is None


def test_a_broker_is_drained_with_the_keyboard_alone(browser, brokers, guests):
    names = [f"key{number}" for number in range(6)]
    guests("iad", *names)
    with page_of(browser, brokers) as watched:
        page, keys = watched.page, watched.page.keyboard
        watched.until("argument.every((name) => p.clients[name]?.up)", *names)
        page.get_by_role("button", name="Drain a broker").focus()
        keys.press("Enter")
        keys.type("iad")
        keys.press("Tab")
        keys.type("nrt")
        keys.press("Tab")
        keys.press("Control+a")
        keys.type("50")
        keys.press("Enter")
        page.get_by_text("6 clients leave iad").wait_for()
        page.get_by_text("50 a second: 0.1 s or more").wait_for()
        page.wait_for_function("document.activeElement.textContent === 'Carry it out'")
        keys.press("Enter")
        watched.until("argument.every((name) => p.clients[name].broker === 'nrt')", *names)
        watched.until("Object.values(p.runs).some((run) => run.state === 'done')")
        page.locator("#panel-changes").get_by_text("6 clients leave iad").wait_for()


def test_on_a_phone_a_target_refuses_with_its_reason(browser, brokers, guests):
    guests("full", "first", "second")
    guests("fra", "third")
    with page_of(browser, brokers, viewport={"width": 390, "height": 844}, has_touch=True) as watched:
        page = watched.page
        watched.until("p.clients.third?.up && p.clients.second?.up")
        page.get_by_role("button", name="Drain a broker").tap()
        page.locator("#wish select[name=broker]").select_option("fra")
        page.locator("#wish select[name=to]").select_option("full")
        page.get_by_role("button", name="Preview the plan").tap()
        page.get_by_text("→ full: 1 client").wait_for()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
        page.get_by_role("button", name="Carry it out").tap()
        page.get_by_text(f"full has room for {ROOM} clients, and takes no more").first.wait_for()
        page.get_by_text("1 not moved: third").wait_for()
        assert page.evaluate("pleach.store.picture.clients.third.broker") == "fra"


def test_wrong_use_gets_help(browser, brokers, guests):
    gone = guests("fra", "doomed")
    with page_of(browser, brokers) as watched:
        page = watched.page
        watched.until("p.clients.doomed?.up")
        page.get_by_role("button", name="Move a client").click()
        client = page.locator("#wish input[name=client]")
        client.fill("nobody")
        page.get_by_role("button", name="Preview the plan").click()
        page.get_by_text("no broker has a client 'nobody'").wait_for()
        client.fill("doomed")
        assert page.locator("#wish [role=alert]").inner_text() == ""
        page.locator("#wish select[name=to]").select_option("nrt")
        page.get_by_role("button", name="Preview the plan").click()
        page.get_by_text("doomed moves from fra to nrt").wait_for()
        gone.leave()
        watched.until("!p.clients.doomed?.up")
        page.get_by_role("button", name="Carry it out").click()
        page.locator("#panel-changes .state[data-state=incomplete]").first.wait_for()
        page.get_by_role("button", name="Drain a broker").click()
        page.locator("#wish select[name=broker]").select_option("iad")
        page.get_by_role("button", name="Preview the plan").click()
        page.get_by_text("no client of iad can move").wait_for()
