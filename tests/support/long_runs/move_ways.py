"""Three ways to move a client between broker processes, side by side, by workload (S4 §5)."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace

import msgspec

from pleach.lab.s4.movers import CoveringWorkload
from support.live.move_ways import CLIENTS, FAMILY, PAUSE_SECONDS, SECONDS, WORKLOADS, Cell, Plan, compared
from support.long_runs.output import say


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each way with each workload")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--family", type=int, default=FAMILY, help="subscriptions of which one may cover the others")
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS, help="between two movements of a client")
    parser.add_argument("--workloads", nargs="+", type=CoveringWorkload, choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--json", action="store_true", help="one object per line")


def run(options: Namespace) -> int:
    asyncio.run(_run(options))
    return 0


async def _run(options: Namespace) -> None:
    plan = Plan(options.clients, options.family, options.seconds, options.pause)
    async for cell in compared(options.place, plan, options.workloads):
        say(msgspec.json.encode(cell).decode() if options.json else _told(cell))


def _told(cell: Cell) -> str:
    return (
        f"{cell.workload:9} {cell.way + ' on ' + cell.routing:24} {cell.moves:5,} movements,"
        f" {cell.mean_ms:6,.0f} ms on average, half within {cell.median_ms:6,.0f}, slowest {cell.slowest_ms:6,.0f};"
        f" {cell.messages_per_move:7,.1f} messages each"
    )
