"""A tree of nine broker processes that improves itself while events flow: the measured cost must fall.

The exit code is 1 if the cost has not fallen by 30% within a minute of the change, or if the reference oracle finds
anything. With `--engine spark` the loop makes its plans there. With `--among-themselves` there is no loop: brokers do
it, by `[improve]`, and print what they say of their neighbours now and then.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pleach.core.optimise.council_settings import CouncilSettings
from support.live.improve_rounds import Stage, improve_rounds, told, told_round
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--brokers-per-zone", type=int, default=3)
    parser.add_argument("--events", type=float, default=20.0, help="per second and source")
    parser.add_argument("--engine", choices=("plain", "spark"), default="plain")
    parser.add_argument("--among-themselves", action="store_true", help="brokers improve their tree, without a loop")


def run(options: Namespace) -> int:
    conduct = CouncilSettings(actions_per_minute_max=20) if options.among_themselves else None
    stage = Stage(options.seconds, options.seconds / 2, options.brokers_per_zone, options.events, conduct=conduct)
    engine = _spark_engine(options.place / "telemetry") if options.engine == "spark" else None
    result = asyncio.run(improve_rounds(options.place, stage, lambda each: say(told_round(each)), engine))
    say("\n".join(told(result)))
    return 0 if result.is_good else 1


def _spark_engine(telemetry: Path):
    from pleach.spark.control import SparkEngine  # noqa: PLC0415 an optional part
    from pleach.spark.session import spark_session  # noqa: PLC0415

    engine = SparkEngine(spark_session("local[*]"), telemetry)
    engine.warm_up()
    return engine
