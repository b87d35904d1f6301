"""How strong are the tests? Small changes to the code, drawn by a seed, and whether a test notices each of them.

    python tools/mutants.py draw build/mutants/7 --seed 7 --count 300    # of the code that is committed
    python tools/mutants.py run build/mutants/7                          # tests that only compute: an hour or two
    python tools/mutants.py run build/mutants/7 --stage live             # with real brokers, on a machine that is quiet
    python tools/mutants.py show build/mutants/7                         # what is alive, as differences
    python tools/mutants.py draw build/mutants/7b --survivors-of build/mutants/7   # after tests were written
    python tools/mutants.py page build/mutants/7 build/mutants/7b        # docs/results/mutants.md

`run` goes on where it was. What is alive has a reason in docs/results/mutants.toml, or gets a test.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
from difflib import unified_diff
from io import BytesIO
from pathlib import Path

from mutation import page
from mutation.campaign import Campaign, Stage
from mutation.draw import draw, found_again, write

ROOT = Path(__file__).parents[1]


def draw_command(arguments: argparse.Namespace) -> None:
    campaign = Campaign(arguments.directory.resolve())
    campaign.place.mkdir(parents=True)
    commit = _git("rev-parse", "HEAD").decode().strip()
    with tarfile.open(fileobj=BytesIO(_git("archive", "HEAD"))) as archive:
        archive.extractall(campaign.tree, filter="data")
    package = campaign.tree / "src" / "pleach"
    if arguments.survivors_of:
        earlier = Campaign(arguments.survivors_of.resolve())
        alive = [mutant for number, mutant in earlier.mutants.items() if number not in earlier.dead()]
        drawn = [now for each in alive if (now := found_again(each, package))]
        seed = json.loads((earlier.place / "draw.json").read_text())["seed"]
    else:
        seed = arguments.seed
        drawn = draw(package, seed, arguments.count)
    write(drawn, campaign.place / "drawn.jsonl")
    (campaign.place / "draw.json").write_text(json.dumps({"seed": seed, "commit": commit}))
    print(f"{len(drawn)} drawn")


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout  # noqa: S603, S607


def run_command(arguments: argparse.Namespace) -> None:
    campaign = Campaign(arguments.directory.resolve())
    for stage in [Stage(arguments.stage)] if arguments.stage else [Stage.QUICK, Stage.PURE]:
        campaign.run(stage, arguments.workers, arguments.under)
        print(f"{stage}: {len(campaign.dead())} of {len(campaign.mutants)} killed")


def show_command(arguments: argparse.Namespace) -> None:
    campaign = Campaign(arguments.directory.resolve())
    dead = campaign.dead()
    for number, mutant in campaign.mutants.items():
        if number in arguments.numbers or (not arguments.numbers and number not in dead):
            path = campaign.tree / "src" / "pleach" / mutant.site.path
            source = path.read_text()
            lines = [text.splitlines(keepends=True) for text in (source, mutant.site.applied(source))]
            said = f" ({dead[number].test}: {dead[number].said})" if number in dead else ""
            print(f"{number}: {mutant.site.operator} in {mutant.site.scope or 'the module'}{said}")
            sys.stdout.writelines(unified_diff(*lines, mutant.site.path, mutant.site.path))


def page_command(arguments: argparse.Namespace) -> None:
    if arguments.directories:
        page.write_rows(page.rows_of(Campaign(each.resolve()) for each in arguments.directories))
    page.PAGE.write_text(page.renewed())
    print(page.PAGE.relative_to(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    drawing = commands.add_parser("draw", help="choose changes, and copy the committed code")
    drawing.add_argument("directory", type=Path, help="new; keeps everything of this draw")
    drawing.add_argument("--seed", type=int, default=1)
    drawing.add_argument("--count", type=int, default=300)
    drawing.add_argument(
        "--survivors-of", type=Path, metavar="DIRECTORY", help="those alive there, in the code as it is now"
    )
    drawing.set_defaults(call=draw_command)

    running = commands.add_parser("run", help="run tests against them")
    running.add_argument("directory", type=Path)
    running.add_argument("--stage", choices=list(Stage), help="one only (else quick, then pure)")
    running.add_argument("--under", nargs="+", default=["tests"], metavar="PATH", help="tests of these folders only")
    running.add_argument("--workers", type=int, default=2, help="processes at once (%(default)s)")
    running.set_defaults(call=run_command)

    showing = commands.add_parser("show", help="differences of those that are alive, or of the given ones")
    showing.add_argument("directory", type=Path)
    showing.add_argument("numbers", type=int, nargs="*")
    showing.set_defaults(call=show_command)

    paging = commands.add_parser("page", help="write docs/results/mutants.md")
    paging.add_argument(
        "directories", type=Path, nargs="*", help="a draw, and later ones of its survivors; none: from mutants.csv"
    )
    paging.set_defaults(call=page_command)

    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
