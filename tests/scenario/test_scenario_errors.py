"""Each rule of the scenario language, broken: the error names the line and what would be right."""

from __future__ import annotations

import pytest

from pleach.errors import ScenarioError
from pleach.scenario import load_scenario, parse_scenario

GOOD = """\
name = "n"
routing = "simple"
links = [["a", "b"], ["b", "c"]]
duration = 10.0

[[clients]]
id = "p"
broker = "a"
"""
NEXT = GOOD.count("\n") + 1  # the line at which appended text starts


def refused(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, file="f.toml")
    return caught.value


def test_the_base_of_this_table_is_good():
    assert parse_scenario(GOOD).clients[0].id == "p"


@pytest.mark.parametrize(
    ("line", "instead", "reason"),
    [
        # TOML itself
        (2, "routing simple", "Expected '=' after a key in a key/value pair (column 9)"),
        (2, 'name = "again"', "not TOML: Cannot overwrite a value"),
        (2, 'routing = "simple', "not TOML: Illegal character"),
        # keys and types
        (1, "name = 5", "`name` is 5; a text is wanted"),
        (1, 'name = ""', "a text is wanted"),
        (1, "name = 2020-01-01", "`name` is a date; a text is wanted"),
        (2, 'routing = "covring"', "unknown routing 'covring'; did you mean `covering`?"),
        (2, 'routing = "x"', "known: covering, flooding, identity, merging, simple"),
        (2, "routing = ['simple']", "unknown routing a list of 1"),
        (4, "duration = 0", "`duration` is 0; a number of seconds, more than 0, is wanted"),
        (4, "duration = true", "`duration` is true"),
        (4, "duration = inf", "`duration` is inf; it must be finite"),
        (4, "duration = nan", "`duration` is nan"),
        (4, f"duration = {2**64}", "does not fit 64 bits"),
        (4, "durration = 10", "unknown key `durration`; did you mean `duration`?"),
        # the tree
        (3, "links = []", "`links` is missing"),
        (3, 'links = "a-b"', "`links` is 'a-b'; a list [ … ] is wanted"),
        (3, 'links = [["a", "b", "c"]]', "`links[0]` is a list of 3; a list of 2 is wanted"),
        (3, 'links = [["a", ""]]', "`links[0][1]` is ''; a name of 1 to 100 printable characters"),
        (3, 'links = [["a", "b c"]]', "without blanks is wanted"),
        (3, f'links = [["a", "{"b" * 101}"]]', "a name of 1 to 100 printable characters"),
        (3, 'links = [["a", "a"]]', "link a-a joins a broker to itself"),
        (3, 'links = [["a", "b"], ["b", "a"]]', "link b-a is there twice"),
        (3, 'links = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]', "d-a closes a cycle: d-c-b-a-d"),
        (3, 'links = [["a", "b"], ["c", "d"], ["d", "e"]]', "fall into 2 parts: {a, b} and {c, d, e}"),
        (3, 'brokers = ["a", "b"]', "fall into 2 parts: {a} and {b}"),
        (3, 'brokers = ["a", "a"]', "`brokers` names 'a' twice"),
        # clients
        (7, "id = 5", "`clients[0].id` is 5"),
        (7, 'id = "b"', "client 'b' is named as a broker"),
        (8, 'broker = "bb"', "client 'p' is at 'bb', which is not a broker; did you mean `b`?"),
    ],
)
def test_a_wrong_line(line, instead, reason):
    error = refused(with_line(line, instead))
    assert reason in error.reason
    assert error.line == line
    assert str(error).startswith(f"f.toml:{line}: ")


@pytest.mark.parametrize(
    ("line", "instead", "expected", "reason"),
    [
        # what is missing is missed at its table
        (1, "", 1, "`name` is missing"),
        (2, "", 1, "`routing` is missing"),
        (3, "", 1, "`links` is missing"),
        (4, "", 1, "`duration` is missing"),
        (7, "", 6, "`id` is missing in `clients[0]`"),
        (8, "", 6, "`broker` is missing in `clients[0]`"),
        # within values of several lines
        (3, 'links = [\n  ["a", "b"],\n  ["b", "b"],\n]', 5, "b-b joins a broker to itself"),
        (3, 'links = [\n  ["a", "b"],\n  [\n    "b",\n    5\n  ],\n]', 7, "`links[1][1]` is 5"),
        (2, 'routing = "simple"\nx = 1', 3, "unknown key `x`; known: advertisements, brokers"),
        (8, 'broker = """a', 8, "not TOML: Unterminated string (the text ends too early)"),
        # where tomllib gives no line
        (2, f"routing = {'[' * 5000}", 0, "nested too deeply; at most 32 levels"),
        (2, f"routing = {'[' * 40}{']' * 40}", 0, "nested too deeply"),
        (2, f"routing = {'{a=' * 40}1{'}' * 40}", 0, "nested too deeply"),
        (8, f"[{'.'.join('a' * 5000)}]", 0, "nested too deeply"),
        (4, f"duration = {'9' * 5000}", 0, "not TOML"),
    ],
)
def test_a_wrong_line_reported_elsewhere(line, instead, expected, reason):
    error = refused(with_line(line, instead))
    assert reason in error.reason
    assert error.line == expected


def with_line(line: int, instead: str) -> str:
    lines = GOOD.splitlines()
    lines[line - 1] = instead
    return "\n".join(lines)


LOAD = "publish = {{ every = 1, attributes = {{ {} }} }}"

IN_CLIENT = [
    ("colour = 1", 0, "unknown key `colour` in `clients[0]`"),
    ("subscripe = []", 0, "did you mean `subscribe`?"),
    ("own_events = 1", 0, "`clients[0].own_events` is 1; true or false is wanted"),
    # subscriptions
    ('subscribe = "x = 1"', 0, "a list [ … ] is wanted"),
    ('subscribe = [\n"x = 1",\n"x ="]', 2, "`clients[0].subscribe[1]` is not a filter:"),
    ('subscribe = ["x ="]', 0, "(column 4)"),
    ("subscribe = [1]", 0, "`clients[0].subscribe[0]` is 1; a text is wanted"),
    ('advertise = ["x = "]', 0, "is not a filter"),
    # loads
    ("publish = 5", 0, "a table { … } or a list of them is wanted"),
    ("publish = [5]", 0, "`clients[0].publish[0]` is 5; a table { … } is wanted"),
    ("publish = { every = 1 }", 0, "`attributes` is missing in `clients[0].publish`"),
    ("[clients.publish]\nattributes = {}", 0, "`every` is missing"),
    ("[clients.publish]\nattributes = {}\nevery = 0", 2, "more than 0, or [low, high], is wanted"),
    ("[clients.publish]\nattributes = {}\nevery = -1", 2, "is -1; a number of seconds, more than 0"),
    ("[clients.publish]\nattributes = {}\nevery = [0, 1]", 2, "more than 0"),
    ("[clients.publish]\nattributes = {}\nevery = [1, 2, 3]", 2, "a list of 3"),
    ("[clients.publish]\nattributes = {}\nevery = [2, 1]", 2, "the lower end comes first: [1, 2]"),
    ("[clients.publish]\nattributes = {}\nevery = 'often'", 2, "is 'often'"),
    ("[clients.publish]\nattributes = {}\nevery = 1e-9", 2, "raise `every` or set `count`"),
    ("[clients.publish]\nattributes = {}\nevery = 5e-324", 2, "raise `every` or set `count`"),
    ("[clients.publish]\nattributes = {}\nevery = 1\nfrom = -1", 3, "0 or more"),
    ("[clients.publish]\nattributes = {}\nevery = 1\nfrom = 3\nuntil = 2", 3, "`from` is 3 s, after `until`"),
    ("[clients.publish]\nattributes = {}\nevery = 1\nfrom = 11", 3, "`from` is 11 s, after `until` (10 s"),
    ("[clients.publish]\nattributes = {}\nevery = 1\nuntil = 11", 3, "after `duration` = 10 s"),
    ("[clients.publish]\nattributes = {}\nevery = 1\ncount = 0", 3, "a whole number from 1"),
    ("[clients.publish]\nattributes = {}\nevery = 1\ncount = 1.5", 3, "a whole number"),
    ("[clients.publish]\nattributes = {}\nevery = 1\npayload_bytes = -1", 3, "a whole number from 0"),
    (
        "[[clients.publish]]\nattributes = {}\nevery = 1\n[[clients.publish]]\nevery = 2",
        3,
        "`attributes` is missing",
    ),
    # attributes
    ("publish = { every = 1, attributes = 5 }", 0, "a table { … } is wanted"),
    (LOAD.format("x = []"), 0, "attributes.x` is a list of 0; a text, a number, true or false"),
    (LOAD.format("x = 2020-01-01"), 0, "is a date"),
    (LOAD.format('"" = 1'), 0, "a non-empty string is wanted"),
    (LOAD.format("x = nan"), 0, "`clients[0].publish.attributes.x` is nan"),
    (LOAD.format("x = { unifrom = [1, 2] }"), 0, "unknown key `unifrom`"),
    (LOAD.format("x = { unifrom = [1, 2] }"), 0, "did you mean `uniform`?"),
    (LOAD.format("x = { uniform = [1] }"), 0, "one of { uniform = [low, high] }"),
    (LOAD.format("x = { uniform = [2, 1] }"), 0, "the lower end comes first"),
    (LOAD.format("x = { uniform = ['a', 'b'] }"), 0, "one of { uniform = [low, high] }"),
    (LOAD.format("x = { choice = [] }"), 0, "{ choice = [value, …] }"),
    (LOAD.format("x = { choice = [[1]] }"), 0, "attributes.x.choice[0]` is a list of 1"),
    (LOAD.format("x = { sequence = false }"), 0, "{ sequence = true }"),
    (LOAD.format("x = { uniform = [1, 2], sequence = true }"), 0, "one of {"),
    (LOAD.format("x = {}"), 0, "one of {"),
    # replies
    ('reply = { to = "x = 1" }', 0, "`with` is missing in `clients[0].reply`"),
    ("reply = { with = {} }", 0, "`to` is missing"),
    ('reply = { to = "x <", with = {} }', 0, "is not a filter"),
    (
        'reply = { to = "x = 1", with = {}, probability = 1.5 }',
        0,
        "probability` is 1.5; a number from 0 to 1 is",
    ),
    ('reply = { to = "x = 1", with = {}, probability = -0.1 }', 0, "a number from 0 to 1"),
    ('reply = { to = "x = 1", with = {}, delay = [-1, 1] }', 0, "0 or more, or [low, high], is wanted"),
    # other clients
    ('[[clients]]\nid = "p"\nbroker = "b"', 1, "client 'p' is there twice"),
    (
        '[clients.publish]\nevery = 1\nattributes = {}\n[[clients]]\nid = "q"',
        3,
        "`broker` is missing in `clients[1]`",
    ),
]

TABLES = [
    (
        "[latency]\ndefault = -1",
        1,
        "`latency.default` is -1; a number of seconds, 0 or more, or [low, high],",
    ),
    ("[latency]\ndefault = 'fast'", 1, "is 'fast'"),
    ('[latency]\n"a-b" = [2, 1]', 1, "the lower end comes first"),
    ('[latency]\n"a-c" = 1', 1, '"a-c" in [latency] is not a link; known: a-b, a-p, b-c, default'),
    ("[latency]\ndefalt = 1", 1, '"defalt" in [latency] is not a link'),
    ('[latency]\n"a-b" = 1\n"b-a" = 1', 2, "[latency] has link b-a twice"),
    ("[loss]\ndefault = 1.5", 1, "a number from 0 to 1"),
    ('[loss]\n"a-b" = 1', 1, "no message would arrive"),
    ('[loss]\n"a-b" = [0, 0.5]', 1, "a number from 0 to 1"),
    ('[loss]\n"p-a" = 0.1\n"p-b" = 0.1', 2, '"p-b" in [loss] is not a link'),
]


def steps(*tables: str) -> str:
    """Each step takes as many lines as its text has, plus one for the header."""
    return "\n".join(f"[[steps]]\n{table}" for table in tables)


STEPS = [
    (steps("do = 'drain'"), 0, "`at` is missing in `steps[0]`"),
    (steps("at = 1"), 0, "`do` is missing in `steps[0]`; it names the kind of step: swap, exchange"),
    (steps("at = 1\ndo = 'swop'"), 2, "unknown step 'swop'; did you mean `swap`?"),
    (steps("at = 1\ndo = 5"), 2, "unknown step 5"),
    (steps("at = -1\ndo = 'drain'"), 1, "`steps[0].at` is -1"),
    (steps("at = 11\ndo = 'drain'"), 1, "`at` is 11 s, after the end at `duration` = 10 s"),
    (steps("at = 1\ndo = 'drain'\nbroker = 'a'"), 3, "unknown key `broker` in `steps[0]`"),
    ("steps = 5", 0, "unknown key"),  # within the client: TOML's own trap
    # the tree
    (steps("at = 1\ndo = 'swap'"), 0, "`brokers` is missing"),
    (steps("at = 1\ndo = 'swap'\nbrokers = ['a', 'b']"), 3, "is a list of 2; a list of 3 is wanted"),
    (steps("at = 1\ndo = 'swap'\nbrokers = ['a', 'b', 'a']"), 3, "`steps[0].brokers` names 'a' twice"),
    (steps("at = 1\ndo = 'swap'\nbrokers = ['a', 'b', 'd']"), 3, "there is no broker 'd' by then"),
    (steps("at = 1\ndo = 'exchange'\nremove = ['a', 'x']\nadd = ['a', 'c']"), 3, "there is no broker 'x'"),
    (steps("at = 1\ndo = 'exchange'\nremove = ['a', 'b']\nadd = ['a', 'x']"), 4, "there is no broker 'x'"),
    (steps("at = 1\ndo = 'add_broker'\nbroker = 'a'\nto = 'b'"), 3, "broker 'a' is there already"),
    (steps("at = 1\ndo = 'add_broker'\nbroker = 'p'\nto = 'b'"), 3, "broker 'p' is named as a client"),
    (steps("at = 1\ndo = 'add_broker'\nbroker = 'd'\nto = 'e'"), 4, "there is no broker 'e'"),
    (steps("at = 1\ndo = 'remove_broker'\nbroker = 'd'"), 3, "there is no broker 'd' by then"),
    (
        steps("at = 1\ndo = 'remove_broker'\nbroker = 'c'", "at = 2\ndo = 'swap'\nbrokers = ['a', 'b', 'c']"),
        7,
        "there is no broker 'c' by then",
    ),
    (  # the broker comes later than its crash, though earlier in the file
        steps("at = 3\ndo = 'add_broker'\nbroker = 'd'\nto = 'a'", "at = 2\ndo = 'crash'\nbroker = 'd'"),
        8,
        "there is no broker 'd' by then",
    ),
    # clients
    (steps("at = 1\ndo = 'move_client'\nclient = 'q'\nto = 'b'"), 3, "there is no client 'q'; known: p"),
    (steps("at = 1\ndo = 'move_client'\nclient = 'p'\nto = 'd'"), 4, "there is no broker 'd' by then"),
    (steps("at = 1\ndo = 'subscribe'\nclient = 'q'\nfilter = 'x = 1'"), 3, "there is no client 'q'"),
    (steps("at = 1\ndo = 'subscribe'\nclient = 'p'\nfilter = 'x ='"), 4, "(column 4)"),
    (
        steps("at = 1\ndo = 'unsubscribe'\nclient = 'p'\nfilter = 'x = 1'"),
        4,
        "has not subscribed to this by then",
    ),
    (
        steps("at = 1\ndo = 'unadvertise'\nclient = 'p'\nfilter = 'x = 1'"),
        4,
        "has not advertised this by then",
    ),
    (steps("at = 1\ndo = 'publish'\nclient = 'q'\nattributes = {}"), 3, "there is no client 'q'"),
    (
        steps("at = 1\ndo = 'publish'\nclient = 'p'\nattributes = { x = [] }"),
        4,
        "attributes.x` is a list of 0",
    ),
    (
        steps("at = 1\ndo = 'publish'\nclient = 'p'\nattributes = { x = { sequence = true } }"),
        4,
        "is a table",
    ),
    # faults
    (steps("at = 1\ndo = 'crash'\nbroker = 'p'"), 3, "there is no broker 'p'"),
    (steps("at = 1\ndo = 'crash'\nbroker = 'a'\nfor_good = true"), 4, "only a coloured network repairs itself"),
    (steps("at = 1\ndo = 'restart'\nbroker = 'a'"), 3, "broker 'a' is running"),
    (
        steps(*["at = 1\ndo = 'crash'\nbroker = 'a'"] * 2),
        7,
        "broker 'a' has crashed already; restart it first",
    ),
    (steps("at = 1\ndo = 'corrupt'\nbroker = 'd'\nwhat = 'table'"), 3, "there is no broker 'd'"),
    (steps("at = 1\ndo = 'corrupt'\nbroker = 'a'"), 0, "`what` is missing"),
    (steps("at = 1\ndo = 'cut'\nlink = ['a', 'x']"), 3, "there is no node 'x' by then"),
    (steps("at = 1\ndo = 'cut'\nlink = ['a', 'c']"), 3, "there is no link a-c by then; known: a-b, b-c"),
    (steps("at = 1\ndo = 'heal'\nlink = ['a', 'c']"), 3, "there is no link a-c"),
    (steps("at = 1\ndo = 'cut'\nlink = ['p', 'b']"), 3, "there is no link p-b"),
    (steps("at = 1\ndo = 'cut'\nlink = ['a', 'a']"), 3, "`steps[0].link` names 'a' twice"),
    (steps("at = 1\ndo = 'slow'\nlink = ['a', 'b']"), 0, "`latency` is missing"),
    (steps("at = 1\ndo = 'slow'\nlink = ['a', 'b']\nlatency = -1"), 4, "0 or more, or [low, high]"),
]


@pytest.mark.parametrize(("text", "offset", "reason"), IN_CLIENT + TABLES + STEPS)
def test_appended_text(text, offset, reason):
    error = refused(GOOD + text)
    assert reason in error.reason
    assert error.line == NEXT + offset


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ('ordering = "total"', "unknown ordering 'total'; known: causal, fifo, none"),
        ('ordering = "casual"', "did you mean `causal`?"),
        ('root = "d"', "`root` is 'd', which is not a broker"),
        ("hierarchical = 1", "true or false"),
        ('advertisements = "yes"', "true or false"),
        ("merge_bound = 0.1", 'set routing = "merging"'),
        ("merge_bound = 2", "a number from 0 to 1"),
        ("exchange = 5", "`exchange` is 5"),
        ("clients = 5", "not TOML: Cannot"),
        ("steps = 5", "`steps` is 5; a list"),
        ("steps = [5]", "`steps[0]` is 5; a table"),
        ("latency = 5", "`latency` is 5; a table"),
    ],
)
def test_a_wrong_setting(setting, reason):
    assert reason in refused(f"{setting}\n{GOOD}").reason


def test_an_ambiguous_link():
    text = GOOD.replace('[["a", "b"], ["b", "c"]]', '[["a", "b-c"], ["a-b", "c"], ["a", "c"]]')
    error = refused(text + '[latency]\n"a-b-c" = 1\n')
    assert "ambiguous: 'a' and 'b-c' or 'a-b' and 'c'" in error.reason
    assert error.line == NEXT + 1


def test_what_cannot_be_advertised():
    names = ", ".join(f"{'x' * 100}{i} = 1" for i in range(60))
    error = refused(f"advertisements = true\n{GOOD}{LOAD.format(names)}")
    assert "client 'p': no advertisement can be derived" in error.reason
    assert "give it `advertise`" in error.reason


@pytest.mark.parametrize(
    "text",
    [
        # brokers count from when they are added; what is down may be up again; a new name may come back
        steps("at = 1\ndo = 'add_broker'\nbroker = 'd'\nto = 'a'", "at = 1\ndo = 'crash'\nbroker = 'd'"),
        steps("at = 1\ndo = 'add_broker'\nbroker = 'd'\nto = 'a'", "at = 2\ndo = 'cut'\nlink = ['d', 'a']"),
        steps("at = 1\ndo = 'remove_broker'\nbroker = 'c'", "at = 2\ndo = 'add_broker'\nbroker = 'c'\nto = 'a'"),
        steps("at = 2\ndo = 'restart'\nbroker = 'a'", "at = 1\ndo = 'crash'\nbroker = 'a'"),
        # whether they are neighbours, the network decides
        steps("at = 1\ndo = 'swap'\nbrokers = ['a', 'c', 'b']"),
        # after a reconfiguration the links are the network's business
        steps("at = 1\ndo = 'swap'\nbrokers = ['a', 'b', 'c']", "at = 2\ndo = 'cut'\nlink = ['a', 'c']"),
        # client links follow their client
        steps("at = 1\ndo = 'move_client'\nclient = 'p'\nto = 'b'", "at = 2\ndo = 'cut'\nlink = ['b', 'p']"),
        # equal filters need not be spelled equally; withdrawing twice is withdrawing once
        steps(
            "at = 1\ndo = 'subscribe'\nclient = 'p'\nfilter = 'x = 1 and y = 2'",
            *["at = 2\ndo = 'unsubscribe'\nclient = 'p'\nfilter = 'y = 2 AND x = 1'"] * 2,
        ),
        steps("at = 10\ndo = 'corrupt'\nbroker = 'a'\nwhat = 'table'"),
    ],
)
def test_what_is_not_an_error_of_the_file(text):
    assert parse_scenario(GOOD + text).steps


def test_derived_advertisements_can_be_withdrawn():
    step = steps("at = 1\ndo = 'unadvertise'\nclient = 'p'\nfilter = 'x = 1'")
    assert parse_scenario(f"advertisements = true\n{GOOD}{LOAD.format('x = 1')}\n{step}").steps


# Files ------------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read: No such file"):
        load_scenario(tmp_path / "none.toml")


def test_a_folder(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_scenario(tmp_path)


def test_a_file_that_is_not_text(tmp_path):
    file = tmp_path / "latin.toml"
    file.write_bytes(b'name = "n"\nrouting = "\xe9"\n')
    with pytest.raises(ScenarioError, match=r"latin\.toml:2: the text is not UTF-8"):
        load_scenario(file)


def test_a_file_that_is_too_long():
    assert "characters" in refused("#" * 5_000_000).reason


def test_an_error_reads_as_one_place_and_one_sentence():
    assert str(refused(GOOD.replace("simple", "simpel"))) == (
        "f.toml:2: unknown routing 'simpel'; did you mean `simple`?"
    )
