"""Frames per second of the dashboard, in the browser, while the tree of many simulated brokers changes.

    python benchmarks/dashboard.py --brokers 1000 --json

A page whose only content is a canvas of that size, with one square that moves, is measured in turn, in that browser:
what the machine gives anybody. A frame that comes 50 ms or more after the one before it is a stutter.
Needs playwright and chromium (requirements-dev.txt).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from playwright.sync_api import Browser, Page, sync_playwright

from pleach.bench.measurement import Measurement, line

BAR = 0.9  # of the frames of the other page
AGAINST = "one moving square"
ROUNDS = 3
SETTLE_MS = 4_000
FRAME_MS = 1_000 / 60
STUTTER_MS = 50
SCREEN = {"width": 1360, "height": 860}

# Gaps between frames, in milliseconds. The dashboard draws in frames of its own; each of them is one of these.
GAPS = """(seconds) => new Promise((resolve) => {
  const gaps = [];
  let last = performance.now();
  const end = last + seconds * 1000;
  const count = () => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(count); else resolve(gaps);
  };
  requestAnimationFrame(count);
})"""


SQUARE = """
<canvas width=1020 height=710></canvas>
<script>
  const context = document.querySelector("canvas").getContext("2d", { alpha: false });
  const draw = (now) => {
    context.clearRect(0, 0, 1020, 710);
    context.fillRect((now / 10) % 1000, 300, 20, 20);
    requestAnimationFrame(draw);
  };
  requestAnimationFrame(draw);
</script>
"""

# Milliseconds that a frame takes, with what the browser does to bring it onto the screen: reading a pixel waits for it.
DRAWING = """(seconds) => new Promise((resolve) => {
  const { scene } = pleach.tree;
  const [draw, spent] = [scene.draw, []];
  scene.draw = (view) => {
    const began = performance.now();
    draw.call(scene, view);
    scene.context.getImageData(0, 0, 1, 1);
    spent.push(performance.now() - began);
  };
  setTimeout(() => { scene.draw = draw; resolve(spent); }, seconds * 1000);
})"""


@contextmanager
def dashboard(brokers: int) -> Iterator[str]:
    command = [sys.executable, "-m", "pleach", "dashboard", "--simulate", str(brokers), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE)  # noqa: S603 - our own command
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def measured(browser: Browser, url: str, brokers: int, seconds: float) -> Iterator[Measurement]:
    page, square = browser.new_page(viewport=SCREEN), browser.new_page(viewport=SCREEN)
    page.goto(url)
    square.set_content(SQUARE)
    page.wait_for_function("(n) => Object.keys(window.pleach?.store.picture.brokers ?? {}).length === n", arg=brokers)
    page.wait_for_timeout(SETTLE_MS)
    before = _shape(page)
    ours, theirs = [], []
    for _ in range(ROUNDS):  # in turn, so that a busy machine slows both
        for tab, gaps in ((square, theirs), (page, ours)):
            tab.bring_to_front()
            gaps.append(tab.evaluate(GAPS, seconds))
    changes = _shape(page) - before
    ratios = [_rate(mine) / _rate(other) for mine, other in zip(ours, theirs, strict=True)]
    case = f"{brokers:,} brokers, {changes} changes of the tree meanwhile"
    ratio = median(ratios)
    yield Measurement("dashboard", case, median(map(_rate, ours)), "frames/s", AGAINST, ratio, BAR, ratio >= BAR)
    slow, usual = _late(ours), max(_late(theirs), 1 / sum(map(len, theirs)))  # one frame at least, to divide by
    late = f"{case}: frames {STUTTER_MS} ms late"
    yield Measurement("dashboard", late, 100 * slow, "%", AGAINST, slow / usual, None, ok=True)
    spent = median(page.evaluate(DRAWING, seconds))
    share = spent / FRAME_MS
    yield Measurement("dashboard", f"{case}: drawing", spent, "ms", "a frame of 1/60 s", share, 1.0, ok=share <= 1.0)


def _shape(page: Page) -> int:
    return int(page.evaluate("pleach.store.shapeVersion"))


def _late(rounds: list[list[float]]) -> float:
    return sum(gap >= STUTTER_MS for gaps in rounds for gap in gaps) / sum(map(len, rounds))


def _rate(gaps: list[float]) -> float:
    return 1_000 * len(gaps) / sum(gaps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--json", action="store_true", help="print one JSON object per measurement")
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 2
    is_ok = True
    with dashboard(options.brokers) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for found in measured(browser, url, options.brokers, options.seconds):
            is_ok = is_ok and found.ok
            print(
                line(found)
                if options.json
                else f"{found.case}: {found.value:.1f} {found.unit}, {found.ratio:.2f} of {found.against}"
            )
        browser.close()
    return 0 if is_ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
