"""Every code block of the documents does what its page says (see blocks.py for the rules)."""

import re

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pleach.access.access_file import load_access
from pleach.scenario import parse_scenario
from pleach.server.settings import load_settings
from pleach.sim.run import run_scenario
from pleach.trace import judge
from support.docs.blocks import CHECKED, COMMANDS, ROOT, RUN, Fate, blocks_of, pages
from support.docs.expectations import EXPECTED
from support.docs.page_scripts import SAID, console_lines, furnish, missing_lines, run, script_of

BLOCKS = [block for page in pages() for block in blocks_of(page)]


def runnable(page, fates):
    return [b for b in blocks_of(page) if b.language in RUN and b.fate in fates]


def name(page):
    return str(page.relative_to(ROOT))


BRISK = [p for p in pages() if runnable(p, {Fate.RUN})]
SLOW = [p for p in pages() if runnable(p, {Fate.SLOW})]


def carried_out(blocks, place, *, seconds_max):
    environment = furnish(place)
    code = run(script_of(blocks, place), place, environment, seconds_max=seconds_max)
    logs = sorted(place.glob("*/*.log"))
    said = (place / "stdout").read_text() + (place / "stderr").read_text()
    said += "".join(f"\n{file.name}: {file.read_text()}" for file in logs)
    assert code == 0, said
    for number, block in enumerate(blocks):
        if block.language == "console":
            printed = (place / SAID.format(number)).read_text()
            assert not missing_lines(console_lines(block.text), printed), f"{block}:\n{printed}"
    return said


@pytest.mark.parametrize("page", BRISK, ids=name)
def test_the_blocks_of_a_page_run(page, tmp_path):
    said = carried_out(runnable(page, {Fate.RUN}), tmp_path, seconds_max=280)
    if page.name in EXPECTED:
        EXPECTED[page.name](tmp_path, said)


@pytest.mark.slow
@pytest.mark.timeout(3_700)
@pytest.mark.parametrize("page", SLOW, ids=name)
def test_the_slow_blocks_of_a_page_run(page, tmp_path):
    carried_out(runnable(page, {Fate.RUN, Fate.SLOW}), tmp_path, seconds_max=3_600)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "toml" and b.fate is Fate.RUN], ids=str)
def test_a_toml_block_is_a_clean_scenario_settings_of_a_broker_or_an_access_file(block, tmp_path):
    if re.search(r"^links\b", block.text, re.MULTILINE):
        verdict = judge(run_scenario(parse_scenario(block.text, file=str(block)), seed=7).records)
        assert verdict.clean, verdict
    elif "[principals." in block.text:
        key = Ed25519PrivateKey.generate().public_key()
        (tmp_path / "issuer.pem").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        (tmp_path / "access.toml").write_text(block.text)
        assert len(load_access(tmp_path / "access.toml"))
    else:
        file = tmp_path / "broker.toml"
        file.write_text(block.text)
        load_settings(file, {}, {})


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "json" and b.fate is Fate.RUN], ids=str)
def test_a_json_block_is_json(block):
    msgspec.json.decode(block.text)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.fate is not Fate.RUN], ids=str)
def test_who_leaves_a_block_out_says_why(block):
    assert len(block.reason.split()) >= 3, f"{block}: {block.reason!r} is no reason"
    assert block.language in RUN | CHECKED, f"{block}: nobody would run it anyway; take the comment away"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in {"", "text"}], ids=str)
def test_commands_do_not_hide_in_text(block):
    assert not COMMANDS.search(block.text), f"{block}: tag it sh or console, and it is run"


def test_the_comments_of_all_pages_are_understood():
    """A comment that is misspelt, or stands away from its block, would be ignored."""
    for page in pages():
        text = page.read_text()
        meant = len(re.findall(r"^ *<!-- *(?:not[ -]run|slow)\b", text, re.MULTILINE))
        assert meant == sum(b.fate is not Fate.RUN for b in blocks_of(page)), page
        hidden = len(re.findall(r"^ *<!-- *run[ -]first\b", text, re.MULTILINE))
        assert hidden == len(re.findall(r"^<!-- run first:$", text, re.MULTILINE)), page


@pytest.mark.parametrize("page", pages(), ids=name)
def test_each_table_begins_with_its_head(page):
    """An empty line within a table makes text of its other half."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert not [rows for rows in tables if not re.match(r".*\n\|[-:| ]+\|\n", rows)]


def test_every_expectation_has_its_page():
    assert set(EXPECTED) <= {page.name for page in BRISK}
