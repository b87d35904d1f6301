"""Chromium for tests, where it is installed; where it is not they are skipped, and say so."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_MS = 60_000


@contextmanager
def opened():
    """A browser. Playwright drives what Debian has: it brings no browser of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (requirements-dev.txt)")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and all that it complains of."""

    def __init__(self, browser, url, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}") or dialog.dismiss())
        self.page.goto(url)

    def until(self, condition, *arguments):
        """A condition on the picture `p` that the page has, as JavaScript; returns its value."""
        script = f"(argument) => {{ const p = window.pleach?.store.picture; return p && ({condition}); }}"
        return self.page.wait_for_function(script, arg=list(arguments)).json_value()

    def close(self):
        self.context.close()
