"""The dashboard in a browser, against brokers that run."""

import json
import subprocess

import pytest

from pleach.scenario.initial_tree import OUTLINE, initial_tree
from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario
from pleach.trace import write_trace
from support.live.broker_process import ENVIRONMENT, PLEACH, eventually
from support.web.chromium import Watched
from support.web.nine_brokers import Load, nine_brokers

pytestmark = pytest.mark.browser

LINKS = (("fra1", "fra2"), ("fra1", "iad1"), ("iad1", "iad2"))
HOSTILE = ("<img src=x onerror=alert(1)>", "__proto__", "a'\"&lt;script&gt;")


@pytest.fixture(scope="module")
def network(tmp_path_factory, browser):
    with nine_brokers(tmp_path_factory.mktemp("nine_brokers"), LINKS) as (brokers, start), Load(brokers, HOSTILE):
        for broker in brokers.values():
            eventually(broker.is_ready)
        yield brokers, start


@pytest.fixture
def watched(browser, network):
    brokers, _ = network
    page = Watched(browser, f"http://{brokers['fra1'].ready['admin']}/dashboard/")
    page.until(f"Object.keys(p.brokers).length === {len(brokers)}")
    yield page
    page.close()
    assert not page.complaints


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A recorded run with swaps, a broker that comes and two that go."""
    scenario = load_scenario("examples/reweave.toml")
    records = run_scenario(scenario, 1).records
    place = tmp_path_factory.mktemp("lake")
    write_trace(records, place, records[0].run, about={OUTLINE: initial_tree(scenario)})
    return place


def dashboard(*arguments):
    process = subprocess.Popen(
        [*PLEACH, "dashboard", *map(str, arguments), "--json"], stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    line = process.stdout.readline()
    return process, json.loads(line)["url"]


def test_the_tree_appears_with_zones_traffic_and_clients(watched, network):
    page = watched.page
    watched.until("p.links['fra1\\niad1']?.there > 0 && p.links['fra1\\niad1'].round_trip > 0")
    picture = page.evaluate("pleach.store.picture")
    assert sorted(picture["links"]) == ["\n".join(link) for link in LINKS]
    assert {name: broker["zone"] for name, broker in picture["brokers"].items()} == {
        name: name[:3] for name in network[0]
    }
    assert picture["clients"]["desk-iad2"]["broker"] == "iad2"
    page.get_by_text("fra", exact=True).first.wait_for()
    drawn = page.evaluate("[...new Set(new Uint32Array(document.getElementById('tree').getContext('2d')"
                          ".getImageData(0, 0, 800, 600).data.buffer))].length")  # fmt: skip
    assert drawn > 10  # colours: something is on the canvas


def test_a_swap_started_by_its_button_completes_and_the_picture_changes(watched):
    page = watched.page
    page.wait_for_function("pleach.tree.placeOf('fra2') !== null")  # it has been drawn
    before = page.evaluate("pleach.tree.placeOf('fra2')")
    page.get_by_role("button", name="Swap a link").click()
    for field, broker in (("a", "fra2"), ("b", "fra1"), ("c", "iad1")):
        page.locator(f"#wish select[name={field}]").select_option(broker)
    page.get_by_role("button", name="Preview the plan").click()
    page.get_by_text("− link fra1 – fra2").wait_for()
    page.get_by_text("+ link fra2 – iad1").wait_for()
    assert "fra1\nfra2" in page.evaluate("pleach.store.picture.links")  # nothing is done yet
    page.get_by_role("button", name="Carry it out").click()
    watched.until("'fra2\\niad1' in p.links && !('fra1\\nfra2' in p.links)")
    watched.until("Object.values(p.operations).some((o) => o.state === 'done' && Object.keys(o.steps).length >= 10)")
    page.get_by_text("swap fra2 fra1 iad1").first.wait_for()
    page.get_by_text("fra2, as a: adopted").first.wait_for()
    page.get_by_text("flooded").first.wait_for()
    # While a broker does not answer it has no place.
    moved = "(old) => (pleach.tree.placeOf('fra2')?.join() ?? old.join()) !== old.join()"
    page.wait_for_function(moved, arg=before)


def test_a_plan_that_makes_no_sense_is_refused_with_the_reason(watched):
    page = watched.page
    page.get_by_role("button", name="Add a broker").click()
    page.locator("#wish input[name=broker]").fill("new1")
    page.locator("#wish input[name=at]").fill("127.0.0.1:1")
    page.get_by_role("button", name="Preview the plan").click()
    page.get_by_text("no broker 'new1' answers").wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("#wish").is_visible()


def test_a_broker_is_added_and_removed_by_buttons(watched, network, tmp_path):
    _, start = network
    new = start("new1", tmp_path, "--zone=iad", durable=True)
    page = watched.page
    page.get_by_role("button", name="Add a broker").click()
    page.locator("#wish input[name=broker]").fill("new1")
    page.locator("#wish input[name=at]").fill(new.ready["admin"])
    page.locator("#wish select[name=to]").select_option("iad2")
    page.get_by_role("button", name="Preview the plan").click()
    page.get_by_role("button", name="Carry it out").click()
    watched.until("p.brokers.new1?.answers && 'iad2\\nnew1' in p.links")
    page.get_by_role("button", name="Remove a broker").click()
    page.locator("#wish select[name=broker]").select_option("new1")
    page.get_by_role("button", name="Preview the plan").click()
    page.get_by_role("button", name="Carry it out").click()
    watched.until("!('new1' in p.brokers)")
    assert new.wait() == 0


def test_a_killed_broker_shows_as_such_and_comes_back(watched, network):
    brokers, _ = network
    page = watched.page
    brokers["iad2"].kill()
    watched.until("p.brokers.iad2.answers === false && !p.links['iad1\\niad2'].up")
    page.get_by_text("1 silent").wait_for()
    page.get_by_text("does not answer: ").first.wait_for()
    page.get_by_label("iad2 does not answer").first.wait_for()  # in the timeline
    brokers["iad2"].start()
    watched.until("p.brokers.iad2.answers && p.links['iad1\\niad2'].up")
    page.get_by_label("iad2 answers again").first.wait_for()


def test_a_bad_filter_gets_the_parsers_error_with_its_column(watched):
    page = watched.page
    page.get_by_role("tab", name="Clients").click()
    page.get_by_label("Who would get such events?").fill("price > ")
    page.keyboard.press("Enter")
    page.get_by_text("column ").wait_for()
    assert "^" in page.locator("#filter-answer").inner_text()
    page.get_by_label("Who would get such events?").fill("topic = 'orders' AND price = 50")
    page.keyboard.press("Enter")
    page.get_by_text("would, as far as").wait_for()
    page.get_by_label("Who would get such events?").fill("topic = 'weather'")
    page.keyboard.press("Enter")
    page.get_by_text("0 clients would").wait_for()


def test_hostile_names_are_text(watched):
    page = watched.page
    watched.until("argument.every((name) => Object.hasOwn(p.clients, name))", *HOSTILE)
    page.get_by_role("tab", name="Clients").click()
    for name in HOSTILE:
        page.get_by_text(name, exact=True).first.click()
        assert page.locator("#panel-selection h2").inner_text() == name
        page.get_by_role("tab", name="Clients").click()
    assert page.locator("img[src=x], script:not([src])").count() == 0
    assert page.evaluate("Object.keys(Object.prototype).length + Object.keys({}).length") == 0


def test_the_keyboard_reaches_everything(watched):
    page = watched.page
    page.evaluate("document.activeElement.blur()")
    wanted = page.evaluate(
        "[...document.querySelectorAll('button, input, select, canvas, a[href], [role=tabpanel]')]"
        ".filter((e) => e.checkVisibility() && e.tabIndex >= 0 && !e.closest('dialog, #timeline'))"
        ".map((e, i) => (e.dataset.tested = String(i)))"
    )
    reached = set()
    for _ in range(3 * len(wanted)):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.tested"))
    assert len(wanted) > 10
    assert set(wanted) <= reached
    page.locator("#tree").focus()
    page.keyboard.press("ArrowRight")  # the middle of the tree
    first = page.evaluate("pleach.store.selected.key")
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("pleach.store.selected.key") in page.evaluate("Object.keys(pleach.store.picture.brokers)")
    assert first
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel-selection"
    page.keyboard.press("/")
    page.keyboard.type("iad2")
    watched.until("pleach.store.selected?.key === 'iad2'")
    page.locator("#tab-selection").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-changes"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser, network, scheme):
    brokers, _ = network
    url = f"http://{brokers['fra1'].ready['admin']}/dashboard/"
    watched = Watched(browser, url, viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True)
    watched.until(f"Object.keys(p.brokers).length === {len(brokers)}")
    assert watched.page.evaluate("document.scrollingElement.scrollWidth") <= 390
    watched.page.get_by_text("published").wait_for()  # the counters are there, and the canvas below them has its place
    watched.until("pleach.tree.isSettled")
    x, y = watched.page.evaluate("pleach.tree.placeOf('iad1')")
    box = watched.page.locator("#tree").bounding_box()
    watched.page.touchscreen.tap(box["x"] + x, box["y"] + y)
    watched.until("pleach.store.selected?.key === 'iad1'")
    watched.close()
    assert not watched.complaints


def test_less_motion_is_none(browser, network):
    """A frame for each change of the picture, and none in between."""
    brokers, _ = network
    url = f"http://{brokers['fra1'].ready['admin']}/dashboard/"
    watched = Watched(browser, url, reduced_motion="reduce")
    watched.until("p.links['fra1\\niad1']?.there > 0 && pleach.tree.isSettled")
    frames, changes = watched.page.evaluate("""() => new Promise((resolve) => {
        const { store, tree } = pleach;
        const [before, changes] = [tree.frames, []];
        store.addEventListener("change", () => {
            changes.push(0);
            if (changes.length === 3) resolve([tree.frames - before, changes.length]);
        });
    })""")
    watched.close()
    assert frames <= changes + 1


def test_replay_moves(browser, lake):
    process, url = dashboard("--trace", lake, "--listen", "127.0.0.1:0")
    try:
        watched = Watched(browser, url)
        page = watched.page
        watched.until("Object.keys(p.brokers).length > 3 && p.verdict.outcome === 'clean'")
        began = page.evaluate("[pleach.store.picture.at, Object.keys(pleach.store.picture.links).sort().join()]")
        page.get_by_label("Moment of the run").fill("500")
        watched.until("p.at > argument[0] && Object.keys(p.links).sort().join() !== argument[1]", *began)
        page.get_by_label("Moment of the run").fill("0")
        watched.until("p.at === argument[0] && Object.keys(p.links).sort().join() === argument[1]", *began)
        page.get_by_role("button", name="Play").click()
        watched.until("p.at > argument[0]", *began)
        assert not page.locator("#actions").is_visible()
        watched.close()
        assert not watched.complaints
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_a_lost_connection_is_said_and_found_again(browser, network):
    brokers, _ = network
    via = brokers["fra1"].ready["admin"]
    process, url = dashboard(via, "--listen", "127.0.0.1:0")
    watched = Watched(browser, url)
    try:
        watched.until("p.brokers.fra1?.answers")
        process.kill()
        process.wait(30)
        process.stdout.close()
        watched.page.get_by_text("connection lost").wait_for()
        process, _ = dashboard(via, "--listen", url.split("/")[2])
        watched.page.get_by_text("live", exact=True).wait_for()
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()
        watched.close()
