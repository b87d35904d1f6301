"""What `--help` prints has all that was written: markup takes `[word]` for a style, and leaves it out."""

import inspect
import re

import pytest
import typer
from typer.testing import CliRunner

import reference
from pleach.cli.main import app

WIDE = {"COLUMNS": "1000", "TERM": "dumb"}  # nothing is wrapped
COMMANDS = dict(reference.walk())


def missing(asked, words, command):
    """Brackets of a command's help that `asked`, its application, does not print."""
    printed = CliRunner().invoke(asked, [*words, "--help"], env=WIDE).stdout
    written = [inspect.cleandoc(command.help or ""), *(p.help or "" for p in command.params)]
    brackets = [found for text in written for found in re.findall(r"\[[^\]]*\]", text.replace("`", ""))]
    return [each for each in brackets if each not in printed]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_loses_a_bracket(name):
    assert not missing(app, name.split()[1:], COMMANDS[name])


def test_some_commands_have_brackets():
    assert any("[" in (p.help or "") for command in COMMANDS.values() for p in command.params)


def test_a_bracket_that_is_lost_is_noticed():
    lossy = typer.Typer(rich_markup_mode="rich")

    @lossy.command()
    def begin() -> None:
        """Start one, without waiting for [ring] join, or HOST[,HOST]."""

    assert missing(lossy, [], typer.main.get_command(lossy)) == ["[ring]"]
