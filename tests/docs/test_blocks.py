"""The finder of blocks and the judge of console blocks: what they must not overlook."""

from support.docs.blocks import Fate, blocks_of
from support.docs.page_scripts import console_commands, console_lines, missing_lines, script_of

PAGE = """\
# A page

```sh
echo one
```

<!-- not run: needs three machines -->
```sh
echo two
```

<!-- run first:
echo hidden
-->

<!-- slow: it takes a minute -->

```python
print(3)
```

- in a list

    ```text
    a ── b
    ```
"""


def page_of(tmp_path, text=PAGE):
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def test_every_block_is_found_with_its_language_and_fate(tmp_path):
    found = [(b.language, b.text.strip(), b.fate) for b in blocks_of(page_of(tmp_path))]
    assert found == [
        ("sh", "echo one", Fate.RUN),
        ("sh", "echo two", Fate.NOT_RUN),
        ("sh", "echo hidden", Fate.RUN),
        ("python", "print(3)", Fate.SLOW),
        ("text", "a ── b", Fate.RUN),
    ]


def test_lines_are_those_of_the_page(tmp_path):
    assert [b.line for b in blocks_of(page_of(tmp_path))] == [3, 8, 12, 18, 24]


def test_python_between_two_shell_blocks_is_one_program(tmp_path):
    text = "```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```sh\ntrue\n```\n\n```python\nprint(2)\n```\n"
    script = script_of(blocks_of(page_of(tmp_path, text)), tmp_path)
    assert script.count("runner.py") == 2
    assert [p.read_text().split() for p in sorted(tmp_path.glob("program-*.py"))] == [
        ["x", "=", "1", "print(x)"],
        ["print(2)"],
    ]


def test_what_a_console_shows_must_be_printed_in_this_order():
    shown = console_lines("$ pleach sim x\n3 sent, … lost\n…\ndone\n")
    assert console_commands("$ pleach sim x\n3 sent") == ["pleach sim x"]
    assert missing_lines(shown, "3 sent,   0 lost\nmore\ndone\n") == []
    assert missing_lines(shown, "done\n3 sent, 0 lost\nmore\n") == ["done"]
    assert missing_lines(["4 sent"], "14 sent\n") == ["4 sent"]


def test_ports_of_a_page_are_the_same_in_all_its_blocks(tmp_path):
    text = "```sh\necho 127.0.0.1:7101 127.0.0.1:710$x\n```\n```python\nprint('127.0.0.1:7102')\n```\n"
    script = script_of(blocks_of(page_of(tmp_path, text)), tmp_path)
    tens = script.split("127.0.0.1:")[1][:4]
    assert f"echo 127.0.0.1:{tens}1 127.0.0.1:{tens}$x" in script
    assert f"127.0.0.1:{tens}2" in next(tmp_path.glob("program-*.py")).read_text()
