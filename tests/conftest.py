"""What all tests share: one Spark session, modules that are compiled once, and which tests `--quick` is.

A test is `live` if its module imports what starts processes or daemons, or what measures: it has deadlines, and waits.
`--quick` leaves these out, with all that is marked `spark`, `browser`, `heavy` or `slow`, and of each function with
many cases it takes a few, evenly spread. CONTRIBUTING.md says which command runs which.
"""

import os
from collections import Counter
from types import ModuleType

import pytest
from hypothesis import settings

# Where Python may not keep what it compiles, each of the hundreds of processes that tests start compiles the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes is the machine's business: other tests run beside it.
settings.register_profile("usual", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)

CASES_MAX = 4  # of one test function, in a quick run
LEFT_OUT = ("live", "spark", "browser", "heavy", "slow")  # of a quick run
STARTERS = (
    "subprocess",
    "support.live.",
    "support.docs.page_scripts",
    "pleach.harness.run",
    "pleach.harness.network",
    "pleach.soak.run",
    "pleach.bench",
)
IN_THIS_PROCESS = tuple(f"support.live.{name}" for name in ("timed_node", "tiny_broker", "recovery_bounds"))


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="no processes, no Spark, no browser, few cases of each test")


def pytest_configure(config):
    settings.load_profile("quick" if config.getoption("--quick") else "usual")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    live = {module for module in {item.module for item in items} if _starts_processes(module)}
    for item in items:
        if item.module in live:
            item.add_marker("live")
    if config.getoption("--quick"):
        chosen = [item for item in items if not any(item.get_closest_marker(mark) for mark in LEFT_OUT)]
        kept = set(_few_of_each(chosen))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _starts_processes(module):
    used = (v.__name__ if isinstance(v, ModuleType) else getattr(v, "__module__", None) for v in vars(module).values())
    return any(str(name).startswith(STARTERS) and name not in IN_THIS_PROCESS for name in used)


def _few_of_each(items):
    """Of a function with many cases the first, and then each that is a whole step further."""
    counts, seen = Counter(map(_function, items)), Counter()
    for item in items:
        function = _function(item)
        before, now = (place * CASES_MAX // counts[function] for place in (seen[function] - 1, seen[function]))
        seen[function] += 1
        if counts[function] <= CASES_MAX or before != now:
            yield item


def _function(item):
    return item.nodeid.partition("[")[0]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session tuned for small data; tests that take it are marked `spark`, so that others start no JVM."""
    from pleach.spark.session import spark_session  # noqa: PLC0415

    session = spark_session(
        "local[2]",
        app="pleach tests",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",  # compiling costs more than it saves here
            "spark.driver.memory": "1g",
            "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield session
    session.stop()
