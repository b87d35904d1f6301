"""The documents as a site: `python tools/site_of_documents.py` puts it into build/site.

    docs/**, README.md, …  ──▶  build/pages  ──▶  ProperDocs, strictly  ──▶  build/site

Pages link to each other, and to files of the repository beside docs/. For the site these files are copied to where the
links can lead, and the links turned there, so that it stands for itself. Navigation is made from the folders: a new
page is in it by being there. A link that leads nowhere ends the build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
SECTIONS = ("tutorials", "how-to", "reference", "explanation", "protocols", "results", "decisions")
FIRST = {"tutorials": ("first-subscription.md", "swap-under-load.md", "stream-into-spark.md", "reproduce-a-figure.md")}
BESIDE = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
STYLE = """\
.md-grid { max-width: 80rem; }
.md-typeset table:not([class]) { font-size: .62rem; }
.md-typeset table:not([class]) code { white-space: nowrap; }
"""  # tables are wide here
FILES = "files"  # where copies of files that are no pages are
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


class SiteError(Exception):
    """A link that leads nowhere, or out of the repository."""


class Place(NamedTuple):
    """Where a file of the repository is in the site's pages."""

    source: PurePosixPath
    target: PurePosixPath


def sources() -> list[Place]:
    """All pages; the README is the first."""
    inside = [path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*")) if path.is_file()]
    placed = [Place(PurePosixPath(path), PurePosixPath(path).relative_to("docs")) for path in inside]
    beside = [Place(PurePosixPath(name), PurePosixPath(name.replace("/README", "").lower())) for name in BESIDE]
    return [Place(PurePosixPath("README.md"), PurePosixPath("index.md")), *placed, *beside]


def assemble(pages: Path) -> None:
    """Write all pages, and the files that they lead to, into a folder."""
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    (pages / "site.css").write_text(STYLE, encoding="utf-8")
    placed = {place.source: place.target for place in sources()}
    for source, target in placed.items():
        (pages / target).parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text, wanted = turned((ROOT / source).read_text(encoding="utf-8"), source, placed)
            (pages / target).write_text(text, encoding="utf-8")
            for path in wanted:
                _copy(path, pages / FILES / path)
        else:
            shutil.copyfile(ROOT / source, pages / target)


def turned(
    text: str, source: PurePosixPath, placed: dict[PurePosixPath, PurePosixPath]
) -> tuple[str, list[PurePosixPath]]:
    """The text with links as they are in the site, and the files beside the pages that it leads to."""
    wanted: list[PurePosixPath] = []
    here = placed[source].parent

    def turn(link: re.Match[str]) -> str:
        path = _resolved(source, link[2])
        target = placed.get(path) or _index_of(path)
        if target is None:
            wanted.append(path)
            target = PurePosixPath(FILES) / (path / "README.txt" if (ROOT / path).is_dir() else path)
        return f"{link[1]}{_relative(target, here)}{link[3]}"

    pieces = FENCE.split(text)  # every other one is a block of code, in which nothing is a link
    pieces[::2] = [LINK.sub(turn, piece) for piece in pieces[::2]]
    return "".join(pieces), wanted


def _resolved(source: PurePosixPath, link: str) -> PurePosixPath:
    path = (ROOT / source.parent / link).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        raise SiteError(f"{source}: {link} leads nowhere")
    return PurePosixPath(path.relative_to(ROOT))


def _index_of(path: PurePosixPath) -> PurePosixPath | None:
    """The page for a folder of pages."""
    if path.parts[:1] == ("docs",) and (ROOT / path).is_dir():
        return path.relative_to("docs") / "index.md"
    return None


def _relative(target: PurePosixPath, here: PurePosixPath) -> str:
    common = next(i for i in range(len(here.parts), -1, -1) if target.parts[:i] == here.parts[:i])
    return "/".join([".."] * (len(here.parts) - common) + list(target.parts[common:]))


def _copy(path: PurePosixPath, to: Path) -> None:
    source = ROOT / path
    if source.is_dir():
        to.mkdir(parents=True, exist_ok=True)
        (to / "README.txt").write_text("\n".join(sorted(p.name for p in source.iterdir())), encoding="utf-8")
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)


# Navigation ----------------------------------------------------------------------------------------------------


def navigation(pages: Path) -> list[object]:
    """Sections in their order, the pages of each by name; what has an order of its own first."""
    sections = [{section.capitalize(): _section(pages, section)} for section in SECTIONS]
    beside = [place.target.as_posix() for place in sources()[-len(BESIDE) :]]
    return [{"Pleach": "index.md"}, *sections, {"Project": beside}]


def _section(pages: Path, section: str) -> list[str]:
    names = sorted(path.relative_to(pages / section).as_posix() for path in (pages / section).rglob("*.md"))
    head = [name for name in ("index.md", "README.md") if name in names]
    first = [name for name in FIRST.get(section, ()) if name in names]
    rest = [name for name in names if name not in (*head, *first)]
    return [f"{section}/{name}" for name in (*head, *first, *rest)]


def write_indexes(pages: Path) -> None:
    """A page for each section that has none: its pages, by their titles."""
    for section in SECTIONS:
        if (pages / section / "README.md").exists():
            (pages / section / "README.md").rename(pages / section / "index.md")
            _point_at_index(pages, section)
        elif not (pages / section / "index.md").exists():
            listed = [path.removeprefix(f"{section}/") for path in _section(pages, section)]
            lines = [f"- [{title(pages / section / name)}]({name})" for name in listed]
            (pages / section / "index.md").write_text(
                "\n".join([f"# {section.capitalize()}", "", *lines, ""]), encoding="utf-8"
            )


def _point_at_index(pages: Path, section: str) -> None:
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        inside = page.parent == pages / section
        old, new = ("](README.md", "](index.md") if inside else (f"{section}/README.md", f"{section}/index.md")
        page.write_text(text.replace(old, new), encoding="utf-8")


def title(page: Path) -> str:
    first = page.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ").replace("`", "")


# The build -----------------------------------------------------------------------------------------------------


def settings(pages: Path, site: Path) -> dict[str, object]:
    palette = [
        {"media": f"(prefers-color-scheme: {name})", "scheme": scheme, "toggle": {"icon": icon, "name": f"{name} now"}}
        for name, scheme, icon in (
            ("light", "default", "material/weather-sunny"),
            ("dark", "slate", "material/weather-night"),
        )
    ]
    return {
        "site_name": "Pleach",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "use_directory_urls": False,  # so that it can be read from the disk
        "theme": {
            "name": "material",
            "font": False,  # those of the reader's machine: nothing is fetched from elsewhere
            "palette": palette,
            "features": ["navigation.tabs", "navigation.indexes", "content.code.copy", "toc.follow"],
        },
        "extra": {"generator": False},
        "extra_css": ["site.css"],
        "plugins": ["material/search"],
        "markdown_extensions": ["tables", "fenced_code", "toc", "pymdownx.highlight", "pymdownx.superfences"],
        "validation": {"links": {"anchors": "warn", "absolute_links": "warn"}},
        "nav": navigation(pages),
    }


def build(pages: Path = PAGES, site: Path = SITE) -> int:
    """The exit code of the generator: 0, or 1 where something in the pages is wrong."""
    assemble(pages)
    write_indexes(pages)
    return generate(pages, site)


def generate(pages: Path, site: Path) -> int:
    config = pages.with_suffix(".yml")
    config.write_text(json.dumps(settings(pages, site)), encoding="utf-8")  # JSON is YAML
    # Not `--quiet`: what is not said is not counted, and strict no more.
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--config-file", str(config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
    return done.returncode


def main() -> None:
    try:
        code = build()
    except SiteError as error:
        sys.exit(f"error: {error}")
    if not code:
        sys.stdout.write(f"{SITE.relative_to(ROOT)}/index.html\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
