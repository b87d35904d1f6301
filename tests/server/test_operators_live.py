"""Operators of running brokers: who is let in, what each may do, and what the audit log tells of it."""

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess

import pytest

from pleach import connect as connect_client
from pleach.access.identity import IdentityKind
from support.access.operators import Provider, audit_lines, request, shows
from support.live.broker_process import ENVIRONMENT, PLEACH, BrokerProcess, address, eventually
from support.live.tls_network import TlsNetwork, tls_chain

EXPECT = {"broker": "new"}
VERBS = "verbs = ['read', 'reweave', 'move', 'remove', 'faults']"
READER = "verbs = ['read']"


@pytest.fixture
def provider(tmp_path):
    made = Provider(tmp_path)
    made.write(oscar=VERBS, rita=READER, alice="publish = 'TRUE'")
    return made


@pytest.fixture
def start(tmp_path):
    started = []

    def run(name, *arguments, durable=True):
        started.append(BrokerProcess(name, tmp_path, *arguments, durable=durable))
        return started[-1]

    yield run
    for broker in started:
        broker.kill()


@pytest.fixture
def plain(start, provider):
    """A broker with an access file, without TLS."""
    return start("a", "--access", provider.file)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return TlsNetwork(tmp_path_factory.mktemp("network") / "certs", "a", "b", "c")


# Who is let in -------------------------------------------------------------------------------------------------------


def test_who_does_not_log_in_sees_what_is_public_and_nothing_else(plain, provider):
    for path in ("/healthz", "/readyz"):
        assert request(plain, "GET", path).code == 200
    for path in ("/status", "/glance", "/metrics", "/components", "/overlay/operations", "/dashboard/stream"):
        refused = request(plain, "GET", path)
        assert refused.code == 401, path
        assert refused.fields["WWW-Authenticate"].startswith("Bearer")
        assert "--token-file" in refused.value["remedy"]
    assert request(plain, "POST", "/overlay/expect", EXPECT).code == 401
    assert request(plain, "GET", "/status", fields=provider.bearer("oscar")).code == 200


def test_a_token_that_is_not_valid_is_not_accepted(plain, provider, tmp_path):
    (tmp_path / "other").mkdir()
    stranger = Provider(tmp_path / "other")
    for fields in (
        provider.bearer("oscar", seconds=-60),
        provider.bearer("unknown"),
        stranger.bearer("oscar"),
        {"Authorization": "Bearer a.b.c"},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic b3NjYXI6"},
    ):
        assert request(plain, "GET", "/status", fields=fields).code == 401


def test_each_may_do_what_its_verbs_say(plain, provider):
    reader, nothing = provider.bearer("rita"), provider.bearer("alice")
    assert request(plain, "GET", "/metrics", fields=reader).code == 200
    refused = request(plain, "POST", "/overlay/expect", EXPECT, reader)
    assert refused.code == 403
    assert "'reweave'" in refused.value["error"]
    assert "'rita'" in refused.value["error"]
    assert "'move'" in request(plain, "POST", "/components/end", {"name": "k"}, reader).value["error"]
    assert "'remove'" in request(plain, "POST", "/overlay/remove", {"broker": "a"}, reader).value["error"]
    assert "'faults'" in request(plain, "POST", "/debug/keep", {}, reader).value["error"]
    assert "'read'" in request(plain, "GET", "/status", fields=nothing).value["error"]
    assert request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("oscar")).code == 200


def test_a_reload_changes_what_each_may(plain, provider):
    oscar = provider.bearer("oscar")
    provider.write(rita=VERBS, oscar=READER)
    plain.signal(signal.SIGHUP)
    eventually(lambda: request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("rita")).code == 200)
    assert request(plain, "POST", "/overlay/expect", EXPECT, oscar).code == 403
    provider.write(rita=VERBS)
    plain.signal(signal.SIGHUP)
    eventually(lambda: request(plain, "GET", "/status", fields=oscar).code == 401)


def test_certificates_are_for_those_whom_they_name(start, provider, network, tmp_path):
    provider.write(oscar=VERBS, alice=READER)
    a = start("a", "--access", provider.file, "--tls", network.broker("a"))
    stray = network.stray(tmp_path / "stray", "z")  # a broker that the list does not have
    unknown = network.made.add(IdentityKind.OPERATOR, "olga")

    def code(files, method="GET", path="/status", body=None, fields=None):
        return request(a, method, path, body, fields, shows(files)).code

    assert code(None) == 401
    assert code(None, path="/healthz") == 200
    assert code(network.operator) == 200
    assert code(network.client) == 200
    assert code(stray) == 401
    assert code(unknown) == 401
    assert code(network.operator, "POST", "/overlay/expect", EXPECT) == 200
    assert code(network.client, "POST", "/overlay/expect", EXPECT) == 403
    # A broker may what brokers need of each other.
    broker = network.broker("b")
    assert code(broker) == 200
    assert code(broker, "POST", "/traffic", {"after": 0}) == 200
    assert code(broker, "POST", "/overlay/expect", EXPECT) == 200
    for path, body in (
        ("/overlay/remove", {"broker": "a"}),
        ("/overlay/move", {"client": "x", "path": ["a", "b"]}),
        ("/debug/keep", {}),
    ):
        assert code(broker, "POST", path, body) == 403, path
    # A token counts before the certificate, also one that is not valid.
    assert code(network.operator, fields={"Authorization": "Bearer a.b.c"}) == 401


def test_a_revoked_certificate_is_refused_after_a_reload(start, provider, tmp_path):
    network = TlsNetwork(tmp_path / "certs", "a")
    provider.write(oscar=VERBS)
    a = start("a", "--access", provider.file, "--tls", network.broker("a"))
    assert request(a, "GET", "/status", context=shows(network.operator)).code == 200
    network.made.revoke("operator/oscar")
    a.signal(signal.SIGHUP)
    eventually(lambda: "certificates read again" in a.log())
    with pytest.raises(OSError):  # noqa: PT011 - the connection ends, in one way or another
        request(a, "GET", "/status", context=shows(network.operator))


def test_without_an_access_file_everybody_may_do_everything_and_nothing_is_recorded(start, tmp_path):
    a = start("a")
    assert request(a, "POST", "/overlay/expect", EXPECT).code == 200
    assert not (tmp_path / "a" / "audit.log").exists()


# The audit log -------------------------------------------------------------------------------------------------------


def test_each_post_leaves_lines_that_are_on_disk_before_the_answer(plain, provider, tmp_path):
    file = tmp_path / "a" / "audit.log"
    answers = [
        request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("oscar")).code,
        request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("rita")).code,
        request(plain, "POST", "/overlay/expect", EXPECT).code,
        request(plain, "POST", "/overlay/expect", {"no": 1}, provider.bearer("oscar")).code,
        request(plain, "POST", "/traffic", {"after": 0}, provider.bearer("rita")).code,
        request(plain, "POST", "/nowhere", {}, provider.bearer("rita")).code,
        request(plain, "POST", "/overlay/expect", EXPECT, {**provider.bearer("oscar"), "Origin": "http://x"}).code,
    ]
    plain.kill()
    assert answers == [200, 403, 401, 400, 200, 404, 403]
    lines = audit_lines(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [(line["stage"], line["principal"], line["way"], line["status"]) for line in lines] == [
        ("asked", "oscar", "token", 0),
        ("answered", "oscar", "token", 200),
        ("answered", "rita", "token", 403),
        ("answered", "", "none", 401),
        ("asked", "oscar", "token", 0),
        ("answered", "oscar", "token", 400),
        ("answered", "rita", "token", 200),
        ("answered", "rita", "token", 404),
        ("answered", "oscar", "token", 403),
    ]
    first, second, *_ = lines
    assert first["id"] == second["id"]
    assert json.loads(first["body"]) == EXPECT
    assert (first["method"], first["path"], first["address"]) == ("POST", "/overlay/expect", "127.0.0.1")
    assert first["at"].endswith("Z")


def test_what_cannot_be_recorded_is_not_done(start, provider, tmp_path):
    config = tmp_path / "a.toml"
    config.write_text(f"[access]\nfile = '{provider.file}'\naudit = '/dev/full'\n")
    a = start("a", "--config", config)
    refused = request(a, "POST", "/overlay/remove", {"broker": "a"}, provider.bearer("oscar"))
    assert refused.code == 503
    assert "No space left" in refused.value["error"]
    assert "nothing was changed" in refused.value["remedy"]
    assert request(a, "GET", "/overlay/operations", fields=provider.bearer("oscar")).value["operations"] == []
    assert request(a, "GET", "/healthz").code == 200


def test_an_audit_log_that_cannot_be_opened_is_told_at_the_start(start, provider, tmp_path):
    config = tmp_path / "a.toml"
    config.write_text(f"[access]\nfile = '{provider.file}'\naudit = '{tmp_path}/nowhere/audit.log'\n")
    with pytest.raises(AssertionError, match=r"the audit log .* cannot be written"):
        start("a", "--config", config)


def test_a_broker_without_a_disk_tells_its_audit_log_to_stderr(start, provider):
    a = start("a", "--access", provider.file, durable=False)
    assert request(a, "POST", "/overlay/expect", EXPECT, provider.bearer("oscar")).code == 200
    told = [json.loads(line) for line in a.log().splitlines() if line.startswith('{"at"')]
    assert [(line["stage"], line["principal"]) for line in told] == [("asked", "oscar"), ("answered", "oscar")]


def test_nothing_that_is_sent_forges_a_line(start, provider, tmp_path):
    known = provider.file.read_text()
    lines = "token = 'evil'\nnames = ['x']\nverbs = ['reweave']\n"
    provider.file.write_text(f'{known}\n[principals."e\\nvil\\u001b[2J\\u202e"]\n{lines}')
    with pytest.raises(AssertionError, match="no name of a principal"):
        start("a", "--access", provider.file)
    provider.file.write_text(f'{known}\n[principals."ä \\" \\\\n"]\n{lines}')
    a = start("a", "--access", provider.file)
    evil = provider.bearer("evil")
    body = json.dumps({"broker": 'x\n{"stage": "answered"}\r\x1b[2J\u202e'}, ensure_ascii=False).encode()
    assert request(a, "POST", "/overlay/expect", body, evil).code in (200, 400)
    assert request(a, "POST", "/overlay/expect", b"\n{}\n\xff\xfe\x7f", evil).code == 400
    assert request(a, "POST", "/overlay/%0a%0d" + "x" * 5_000, {}, evil).code in (400, 404)
    assert request(a, "POST", "/overlay/expect", {"broker": "y" * 8_000}, evil).code == 400
    content = (tmp_path / "a" / "audit.log").read_bytes()
    assert all(byte == 0x0A or 0x20 <= byte < 0x7F for byte in content)
    lines = audit_lines(tmp_path / "a" / "audit.log")
    assert {line["principal"] for line in lines} == {'ä " \\n'}
    assert max(map(len, content.splitlines())) < 4_000
    assert len(lines) in (7, 8)


def test_strangers_cannot_fill_the_disk(plain, provider, tmp_path):
    for _ in range(150):
        assert request(plain, "POST", "/overlay/expect", EXPECT).code == 401
    assert request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("oscar")).code == 200
    lines = audit_lines(tmp_path / "a" / "audit.log")
    assert 60 <= len(lines) < 120
    assert sum(line.get("left_out", 0) for line in lines) + len(lines) == 152


def test_a_renamed_log_is_begun_anew_at_sighup_and_a_line_that_was_cut_off_is_ended(plain, provider, tmp_path):
    file, old = tmp_path / "a" / "audit.log", tmp_path / "a" / "audit.log.1"
    assert request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("oscar")).code == 200
    file.rename(old)
    file.write_text('{"at": ')  # as a crash leaves it
    plain.signal(signal.SIGHUP)
    eventually(lambda: "settings read again" in plain.log())
    assert request(plain, "POST", "/overlay/expect", EXPECT, provider.bearer("oscar")).code == 200
    assert len(audit_lines(old)) == 2
    torn, *lines = file.read_text().splitlines()
    assert torn == '{"at": '
    assert [json.loads(line)["stage"] for line in lines] == ["asked", "answered"]


# Commands ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(provider, network, tmp_path):
    """a – b – c with TLS and an access file, whose principals have tokens and certificates."""
    started = []
    provider.write(oscar=VERBS, rita=READER, alice=READER)
    try:
        yield tls_chain(started, tmp_path, network, extra=("--access", provider.file), durable=True)
    finally:
        for broker in started:
            broker.kill()


def pleach(*arguments, **environment):
    command = [*PLEACH, *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command, check=False, env=ENVIRONMENT | environment, **options)


def token_file(provider, tmp_path, principal):
    file = tmp_path / f"{principal}.token"
    file.write_text(provider.token(principal) + "\n")
    return file


def test_commands_log_in_by_token_or_certificate(tree, provider, network, tmp_path):
    via = ("--via", tree["a"].ready["admin"])
    operator, reader = token_file(provider, tmp_path, "oscar"), token_file(provider, tmp_path, "rita")
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    (nobody / "authority.pem").write_bytes((network.path / "authority.pem").read_bytes())
    swap = ("overlay", "swap", "a", "b", "c", *via)
    for case in (("overlay", "show"), ("overlay", "status"), ("component", "list"), ("client", "move", "x", "--to=b")):
        denied = pleach(*case, *via, "--tls", nobody)
        assert denied.returncode == 2, (case, denied)
        assert "--token-file" in denied.stderr.replace("\n", " ")
    assert pleach("dashboard", *via, "--listen=127.0.0.1:0", PLEACH_TLS=str(nobody)).returncode == 2
    assert pleach("overlay", "show", *via, "--tls", nobody, "--token-file", reader).returncode == 0
    assert pleach("overlay", "show", *via, PLEACH_TLS=str(nobody), PLEACH_TOKEN_FILE=str(reader)).returncode == 0
    for case in (swap, ("component", "host", "k", "running-sum", "--at=a", *via)):
        denied = pleach(*case, "--tls", nobody, "--token-file", reader)
        assert denied.returncode == 2, denied
        assert "needs the verb" in denied.stderr
    assert pleach(*swap, "--tls", nobody, "--token-file", operator).returncode == 0
    assert pleach("overlay", "swap", "a", "c", "b", *via, "--tls", network.operator).returncode == 0
    lines = audit_lines(tmp_path / "a" / "audit.log")
    assert [(each["principal"], each["way"]) for each in lines if each["stage"] == "asked"] == [
        ("oscar", "token"),
        ("oscar", "certificate"),
    ]


def test_a_denied_drain_is_told_as_such(tree, provider, network, tmp_path):
    via = ("--via", tree["a"].ready["admin"])
    connect = f"pleach://{tree['a'].ready['client']}"
    provider.write(rita=READER, alice="subscribe = 'TRUE'")
    for broker in tree.values():
        broker.signal(signal.SIGHUP)

    async def story():
        async with connect_client(connect, name="alice", tls=network.client) as alice:
            await alice.subscribe("TRUE")
            reader = token_file(provider, tmp_path, "rita")
            drain = ("overlay", "drain", "a", *via, "--tls", network.client, "--token-file", reader)
            return await asyncio.to_thread(pleach, *drain)

    denied = asyncio.run(story())
    assert denied.returncode == 2, denied
    assert "'move'" in denied.stderr


def test_a_token_is_not_sent_to_other_machines_without_tls(provider, tmp_path):
    file = token_file(provider, tmp_path, "oscar")
    denied = pleach("overlay", "show", "--via", "192.0.2.1:7300", "--token-file", file)
    assert denied.returncode == 2
    assert "without TLS" in denied.stderr
    file.write_text("a b\nc")
    assert "has no token" in pleach("overlay", "show", "--via", "127.0.0.1:7300", "--token-file", file).stderr


# The dashboard -------------------------------------------------------------------------------------------------------


def cookie_of(reply):
    pair, *attributes = reply.fields["Set-Cookie"].split("; ")
    return {"Cookie": pair}, set(attributes)


def log_in(broker, token, context=None):
    return request(broker, "POST", "/login", {"token": token}, context=context)


def test_a_browser_logs_in_and_out(plain, provider, tmp_path):
    sent = request(plain, "GET", "/dashboard/")
    assert (sent.code, sent.fields["Location"]) == (303, "/dashboard/login.html")
    for name in ("login.html", "login.js", "style.css", "icon.svg"):
        assert request(plain, "GET", f"/dashboard/{name}").code == 200
    assert request(plain, "GET", "/dashboard/app.js").code == 401
    for token in ("a.b.c", provider.token("oscar", -60), provider.token("unknown"), ""):
        refused = log_in(plain, token)
        assert refused.code == 401
        assert "Set-Cookie" not in refused.fields
    cookie, attributes = cookie_of(log_in(plain, provider.token("rita")))
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= attributes
    assert "Secure" not in attributes
    assert len(cookie["Cookie"].partition("=")[2]) >= 43  # 256 bits
    page = request(plain, "GET", "/dashboard/", fields=cookie)
    assert page.code == 200
    assert ">rita<" in page.text
    assert request(plain, "GET", "/status", fields=cookie).code == 200
    assert request(plain, "POST", "/overlay/expect", EXPECT, cookie).code == 403
    assert request(plain, "POST", "/traffic", {"after": 0}, {**cookie, "Origin": "http://evil"}).code == 403
    assert request(plain, "POST", "/login", {"token": "x"}, {"Origin": "http://evil"}).code == 403
    assert request(plain, "POST", "/logout", {}, cookie).code == 200
    assert request(plain, "GET", "/status", fields=cookie).code == 401
    text = (tmp_path / "a" / "audit.log").read_text()
    assert "eyJ" not in text  # no token
    lines = [line for line in audit_lines(tmp_path / "a" / "audit.log") if line["path"] == "/login"]
    assert [(line["status"], line["principal"], line["body"]) for line in lines] == [
        *[(401, "", "")] * 4,
        (200, "rita", ""),
        (403, "", ""),
    ]


def test_a_session_ends_with_its_token_and_with_its_principal_and_so_does_its_stream(plain, provider):
    short, _ = cookie_of(log_in(plain, provider.token("rita", seconds=-3)))  # the clocks may differ by 5 s
    assert request(plain, "GET", "/status", fields=short).code == 200
    with stream(plain, short) as events:
        assert b"event: " in events.readline() + events.readline()
        assert len(events.read()) >= 0  # it ends
    assert request(plain, "GET", "/status", fields=short).code == 401
    assert request(plain, "GET", "/dashboard/", fields=short).code == 303
    long, _ = cookie_of(log_in(plain, provider.token("rita")))
    with stream(plain, long) as events:
        assert b"event: " in events.readline() + events.readline()
        provider.write(oscar=VERBS)
        plain.signal(signal.SIGHUP)
        events.read()
    assert request(plain, "GET", "/status", fields=long).code == 401


@contextlib.contextmanager
def stream(broker, fields, context=None):
    place = address(broker.ready["admin"])
    if context is None:
        connection = http.client.HTTPConnection(*place, timeout=60)
    else:
        connection = http.client.HTTPSConnection(*place, timeout=60, context=context)
    connection.request("GET", "/dashboard/stream", headers=fields)
    response = connection.getresponse()
    assert response.status == 200
    try:
        yield response
    finally:
        connection.close()


def test_what_is_done_from_the_dashboard_is_done_in_the_name_of_who_is_logged_in(tree, provider, network, tmp_path):
    a, context = tree["a"], shows(None)
    swap = {"do": "swap", "a": "c", "b": "b", "c": "a"}

    def session(principal):
        cookie, attributes = cookie_of(log_in(a, provider.token(principal), context))
        assert "Secure" in attributes
        page = request(a, "GET", "/dashboard/", fields=cookie, context=context).text
        token = page.partition('name="pleach-token" content="')[2].partition('"')[0]
        return {**cookie, "X-Pleach-Token": token}

    def act(action, body, fields):
        return request(a, "POST", f"/dashboard/{action}", body, fields, context)

    reader, operator = session("rita"), session("oscar")
    draft = act("plan", swap, reader).value["draft"]
    denied = act("apply", {"draft": draft}, reader)
    assert denied.code == 403
    assert "'reweave'" in denied.value["error"]
    assert act("apply", {"draft": draft}, operator).code == 200
    eventually(lambda: sorted(tree["c"].status()["neighbours"]) == ["a"])
    asked = [line for line in audit_lines(tmp_path / "c" / "audit.log") if line["path"] == "/overlay/swap"]
    assert {(line["principal"], line["way"]) for line in asked} == {("oscar", "token")}
    applied = [line for line in audit_lines(tmp_path / "a" / "audit.log") if line["path"] == "/dashboard/apply"]
    assert [(line["stage"], line["principal"], line["way"], line["status"]) for line in applied] == [
        ("asked", "rita", "session", 0),
        ("answered", "rita", "session", 403),
        ("asked", "oscar", "session", 0),
        ("answered", "oscar", "session", 200),
    ]


# Tenants -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tenants(provider, network, tmp_path):
    """Two brokers with TLS, a client of acme, one of bolt and one of no tenant, and operators of each."""
    started = []
    clients = "publish = 'TRUE'\nsubscribe = 'TRUE'\nnames = ['*']"
    provider.write(
        ann=f"tenant = 'acme'\n{clients}",
        bob=f"tenant = 'bolt'\n{clients}",
        nobody=clients,
        oscar=VERBS,
        root=f"tenant = '*'\n{VERBS}",
        acmeop="tenant = 'acme'\nverbs = ['read', 'move']",
    )
    try:
        yield tls_chain(started, tmp_path, network, extra=("--access", provider.file), durable=True)
    finally:
        for broker in started:
            broker.kill()


@contextlib.asynccontextmanager
async def three_clients(broker, provider, network):
    async with contextlib.AsyncExitStack() as stack:
        for name, tenant in (("ann", "acme"), ("bob", "bolt"), ("nobody", "")):
            connecting = connect_client(
                f"pleach://{broker.ready['client']}",
                name=name,
                tenant=tenant,
                token=provider.token(name),
                tls=network.path / "anybody",
            )
            client = await stack.enter_async_context(connecting)
            await client.subscribe(f"topic = 'secret of {name}'")
        yield


def test_operators_of_a_tenant_see_and_move_what_is_theirs_and_no_more(tenants, provider, network):
    a, context = tenants["a"], shows(None)
    anybody = network.path / "anybody"
    anybody.mkdir(exist_ok=True)
    (anybody / "authority.pem").write_bytes((network.path / "authority.pem").read_bytes())

    def reply(principal, method, path, body=None, fields=None):
        told = {**provider.bearer(principal), **(fields or {})}
        return request(a, method, path, body, told, context)

    def check():
        for principal in ("oscar", "root"):
            assert set(reply(principal, "GET", "/status").value["clients"]) == {"acme/ann", "bolt/bob", "nobody"}
        for path in ("/status", "/glance", "/metrics", "/components"):
            seen = reply("acmeop", "GET", path)
            assert seen.code == 200, path
            assert "bob" not in seen.text, path
            assert "nobody" not in seen.text, path
        for path in ("/status", "/glance"):
            assert set(reply("acmeop", "GET", path).value["clients"]) == {"acme/ann"}
            assert reply("acmeop", "GET", path).value["clients_count"] == 1
        for path in ("/overlay/operations", "/overlay/operations/x"):
            assert reply("acmeop", "GET", path).code == 403, path
        for path, body in (("/traffic", {"after": 0}), ("/dashboard/film", {})):
            denied = reply("acmeop", "POST", path, body)
            assert denied.code == 403, path
            assert "of the whole network" in denied.value["error"]
        for client in ("bolt/bob", "nobody", "bolt/none"):
            denied = reply("acmeop", "POST", "/overlay/move", {"client": client, "path": ["a", "b"]})
            assert denied.code == 403
            assert "'acme'" in denied.value["error"]
        assert reply("acmeop", "POST", "/components/end", {"name": "bolt/k"}).code == 403
        with stream(a, provider.bearer("acmeop"), context) as events:
            lines = iter(events.readline, b"")
            whole = json.loads(next(line for line in lines if b'"brokers"' in line).removeprefix(b"data: "))
            assert set(whole["clients"]) == {"acme/ann"}
            assert whole["source"]["can"] == ["move"]
            check_dashboard()  # while somebody looks, the page knows where brokers are
        twice = b'{"client": "acme/ann", "client": "bolt/bob", "path": ["a", "b"]}'
        assert reply("acmeop", "POST", "/overlay/move", twice).code == 403
        assert reply("acmeop", "POST", "/overlay/move", {"client": "acme/ann", "path": ["a", "b"]}).code == 200
        assert set(reply("acmeop", "GET", "/status").value["clients"]) == set()

    def check_dashboard():
        page = reply("acmeop", "GET", "/dashboard/").text
        token = {"X-Pleach-Token": page.partition('name="pleach-token" content="')[2].partition('"')[0]}
        detail = reply("acmeop", "POST", "/dashboard/broker", {"broker": "a"}, token)
        interest = {"filter": "topic LIKE 'secret%'"}
        assert set(detail.value["clients"]) == {"acme/ann"}
        assert "bob" not in detail.text
        assert "bob" in reply("oscar", "POST", "/dashboard/broker", {"broker": "a"}, token).text
        assert set(reply("oscar", "POST", "/dashboard/interest", interest, token).value["clients"]) == {
            "acme/ann",
            "bolt/bob",
            "nobody",
        }
        assert set(reply("acmeop", "POST", "/dashboard/interest", interest, token).value["clients"]) == {"acme/ann"}
        move = {"do": "move", "client": "bolt/bob", "to": "b"}
        drain = {"do": "drain", "broker": "a"}
        swap = {"do": "swap", "a": "a", "b": "b", "c": "c"}
        for wish in (move, drain, swap):
            assert reply("acmeop", "POST", "/dashboard/plan", wish, token).code == 403
        draft = reply("oscar", "POST", "/dashboard/plan", move, token).value["draft"]
        assert reply("acmeop", "POST", "/dashboard/apply", {"draft": draft}, token).code == 403

    async def story():
        async with three_clients(a, provider, network):
            await asyncio.to_thread(check)

    asyncio.run(story())


@pytest.mark.parametrize("verb", ["reweave", "remove", "faults"])
def test_a_file_that_gives_a_tenants_operator_what_concerns_all_is_refused(start, provider, verb):
    provider.write(ann=f"tenant = 'acme'\nverbs = ['read', '{verb}']")
    with pytest.raises(AssertionError, match=f"'{verb}' concerns all tenants"):
        start("a", "--access", provider.file)
