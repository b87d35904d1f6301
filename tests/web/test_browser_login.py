"""The log-in of the dashboard in a browser, over TLS, and what an operator sees that may only read."""

import pytest

from support.access.operators import Provider
from support.live.tls_network import TlsNetwork, tls_chain
from support.web.chromium import Watched

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("login")


@pytest.fixture(scope="module")
def provider(place):
    made = Provider(place)
    every = "verbs = ['read', 'reweave', 'move', 'remove']"
    made.write(oscar=every, rita="verbs = ['read']", mo="verbs = ['read', 'move']")
    return made


@pytest.fixture(scope="module")
def url(place, provider, browser):
    started = []
    network = TlsNetwork(place / "certs", "a", "b", "c")
    try:
        tree = tls_chain(started, place, network, extra=("--access", provider.file))
        yield f"https://{tree['a'].ready['admin']}/dashboard/"
    finally:
        for broker in started:
            broker.kill()


@pytest.fixture
def watched(browser, url):
    page = Watched(browser, url, ignore_https_errors=True)
    yield page
    page.close()
    assert not page.complaints


def log_in(watched, token):
    watched.page.get_by_label("Token of your identity provider").fill(token)
    watched.page.get_by_role("button", name="Log in").click()


def test_who_logs_in_sees_the_tree_and_is_led_back_by_logging_out(watched, provider):
    page = watched.page
    assert page.url.endswith("/dashboard/login.html")
    log_in(watched, "no.token.at-all")
    page.get_by_text("ask the identity provider").wait_for()
    log_in(watched, provider.token("oscar"))
    watched.until("Object.values(p.brokers).filter((b) => b.answers).length === 3")
    page.get_by_role("button", name="Swap a link").wait_for()
    assert page.evaluate("document.cookie") == ""  # no script reads it
    page.get_by_text("oscar", exact=True).wait_for()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login.html")


@pytest.mark.parametrize(
    ("principal", "offered"), [("rita", []), ("mo", ["Drain a broker", "Move a client"])], ids=["reader", "mover"]
)
def test_what_one_may_not_do_is_not_offered(watched, provider, principal, offered):
    page = watched.page
    log_in(watched, provider.token(principal))
    watched.until("Object.values(p.brokers).filter((b) => b.answers).length === 3")
    page.get_by_text("seen from a").wait_for()  # the text is rendered with the buttons
    buttons = page.locator("#actions button:visible").all_inner_texts()
    assert buttons == offered


def test_a_token_that_expires_ends_the_session_of_an_open_page(watched, provider):
    log_in(watched, provider.token("rita", seconds=3))  # and 5 s, by which the clocks may differ
    watched.until("Object.keys(p.brokers).length === 3")
    watched.page.wait_for_url("**/login.html")
