"""The site: every page is in it, every link leads somewhere, and nothing is fetched from elsewhere."""

import re
from pathlib import PurePosixPath

import pytest

import site_of_documents as site
from support.docs.blocks import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "pages"
    site.assemble(folder)
    site.write_indexes(folder)
    return folder


def leaves(navigation):
    for entry in navigation:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else leaves(value)


def test_every_page_is_in_the_navigation_once(pages):
    there = sorted(p.relative_to(pages).as_posix() for p in pages.rglob("*.md") if "files" not in p.parts)
    assert sorted(leaves(site.navigation(pages))) == there
    assert len(there) > 60


def test_every_folder_of_documents_is_a_section():
    folders = {p.name for p in (ROOT / "docs").iterdir() if p.is_dir() and any(p.rglob("*.md"))}
    assert folders == set(site.SECTIONS)


def test_links_lead_to_files_of_the_site(pages):
    for page in pages.rglob("*.md"):
        prose = "".join(site.FENCE.split(page.read_text())[::2])
        for link in site.LINK.finditer(prose):
            assert (page.parent / link[2]).exists(), f"{page.relative_to(pages)}: {link[2]}"


def test_a_link_that_leads_nowhere_is_an_error():
    placed = {PurePosixPath("README.md"): PurePosixPath("index.md")}
    with pytest.raises(site.SiteError, match=r"no-such-page\.md leads nowhere"):
        site.turned("see [there](docs/no-such-page.md)", PurePosixPath("README.md"), placed)


def test_links_in_code_are_left_alone():
    placed = {PurePosixPath("README.md"): PurePosixPath("index.md")}
    text = "```text\n[x](nowhere.md)\n```\n"
    assert site.turned(text, PurePosixPath("README.md"), placed) == (text, [])


def test_the_site_is_built_strictly_and_stands_for_itself(tmp_path):
    pytest.importorskip("properdocs", reason="`make site` installs the generator")
    assert site.build(tmp_path / "pages", tmp_path / "site") == 0
    fetched = re.compile(r"<(?:script|img|iframe)[^>]*src=\"?https?:|<link[^>]*href=\"?https?:|url\([\"']?https?:")
    for file in [*(tmp_path / "site").rglob("*.html"), *(tmp_path / "site").rglob("*.css")]:
        assert not fetched.search(file.read_text()), file


@pytest.mark.heavy
def test_a_heading_that_is_not_there_fails_the_build(tmp_path, capfd):
    pytest.importorskip("properdocs", reason="`make site` installs the generator")
    pages = tmp_path / "pages"
    site.assemble(pages)
    site.write_indexes(pages)
    with (pages / "index.md").open("a") as page:
        page.write("\n[there](reference/filters.md#no-such-heading)\n")
    assert site.generate(pages, tmp_path / "site") == 1
    assert "no-such-heading" in capfd.readouterr().err
