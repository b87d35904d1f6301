"""The pictures of the dashboard in docs/images, taken anew: `python tests/long_run.py pictures docs/images`.

Nine brokers in three zones, with clients that publish and others that only listen; then a thousand simulated brokers.
Needs playwright and chromium. It takes a minute or two.
"""

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

from support.live.broker_process import ENVIRONMENT, PLEACH, eventually
from support.web.chromium import Watched, opened
from support.web.nine_brokers import Load, nine_brokers

SCREEN = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
LISTENERS = ("ticker", "ledger", "risk", "archive", "alerts")
TRAFFIC_MS = 4_000  # until rates and times of links are what they usually are


def settled(watched, milliseconds=TRAFFIC_MS):
    watched.until("pleach.tree.isSettled")
    watched.page.wait_for_timeout(milliseconds)


def chosen(page, action, **fields):
    """The form of an action, filled in, with its plan."""
    page.get_by_role("button", name=action, exact=True).click()
    for name, value in fields.items():
        page.locator(f"#wish select[name={name}]").select_option(value)
    page.get_by_role("button", name="Preview the plan").click()
    page.get_by_role("button", name="Carry it out").wait_for()


def of_nine(browser, place, folder):
    with nine_brokers(folder) as (brokers, _), Load(brokers, LISTENERS):
        for broker in brokers.values():
            eventually(broker.is_ready)
        url = f"http://{brokers['iad1'].ready['admin']}/dashboard/"
        light = Watched(browser, url, viewport=SCREEN, color_scheme="light")
        light.until("Object.keys(p.brokers).length === 9 && p.links['fra1\\niad1']?.round_trip > 0")
        swap_and_drain(light, place)
        light.close()
        phone = Watched(browser, url, viewport=PHONE, color_scheme="dark", device_scale_factor=2, has_touch=True)
        move(phone, place)
        phone.close()
        brokers["nrt3"].kill()
        dark = Watched(browser, url, viewport=SCREEN, color_scheme="dark")
        dark.until("p.brokers.nrt3?.answers === false && p.links['nrt1\\nnrt3']?.queued_there > 50")
        dark.page.get_by_label("Find a broker or client").fill("nrt3")
        dark.page.evaluate("document.activeElement.blur()")
        settled(dark)
        dark.page.screenshot(path=place / "dashboard-dark.png")
        dark.close()


def swap_and_drain(light, place):
    page = light.page
    settled(light)
    chosen(page, "Swap a link", a="fra3", b="fra1", c="iad1")
    page.screenshot(path=place / "dashboard-light.png")
    page.get_by_role("button", name="Carry it out").click()
    light.until("'fra3\\niad1' in p.links")
    settled(light)
    chosen(page, "Drain a broker", broker="fra1")
    page.screenshot(path=place / "dashboard-drain.png")


def move(phone, place):
    phone.until("p.clients.ledger?.up")
    settled(phone)
    phone.page.screenshot(path=place / "dashboard-phone.png")
    phone.page.get_by_label("Find a broker or client").fill("ledger")
    chosen(phone.page, "Move a client", to="nrt3")
    settled(phone, 500)
    phone.page.screenshot(path=place / "dashboard-phone-move.png")


def of_a_thousand(browser, place):
    with simulated(1_000) as url:
        watched = Watched(browser, url, viewport=SCREEN, color_scheme="light")
        watched.until("Object.keys(p.brokers).length === 1000")
        watched.page.get_by_role("tab", name="Changes").click()
        settled(watched, 8_000)
        watched.page.screenshot(path=place / "dashboard-1000.png")
        watched.close()


@contextmanager
def simulated(brokers):
    command = [*PLEACH, "dashboard", "--simulate", str(brokers), "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def add_options(parser):
    parser.add_argument("folder", type=Path, help="that they are put into")


def run(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    with opened() as browser:
        of_nine(browser, options.folder, options.place)
        of_a_thousand(browser, options.folder)
    return 0
