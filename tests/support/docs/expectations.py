"""What a run of a page must have led to, beyond its exit code 0. Each gets the folder and all that was said."""


def run_brokers(place, said):
    got = (place / "net" / "got").read_text().splitlines()
    assert [line.split()[1] for line in got] == ["amount=50"] * 10 + ["amount=60"] * 10, said
    tree = (place / "net" / "tree").read_text()
    assert [line.strip("│├└─ ").split()[0] for line in tree.splitlines()] == ["a", "b", "c"], said


def reweave(place, said):
    assert len((place / "net" / "got").read_text().splitlines()) == 300, said
    assert "c has ended with 0" in said
    assert said.count("done: the tree is as planned") == 5, said
    assert "clients have left b" in said


def dashboard(_place, said):
    assert said.count('"ready":true') == 2, said
    assert "event: whole" in said
    assert '"kind":"live"' in said
    assert "verdict: clean" in said
    assert "nothing here is called 'evil.example'" in said
    assert "load the dashboard again" in said


def first_subscription(place, said):
    got = (place / "net" / "got").read_text()
    assert [f"price={price}" in got for price in (130, 99, 125)] == [True, False, True], said
    assert "{'symbol': 'IBM', 'price': 140} b'whatever you like'" in said


def swap_under_load(place, said):
    assert "nothing lost, nothing doubled, nothing out of order" in said
    assert "done: the tree is as planned" in said
    assert said.count("verdict: clean") == 4, said  # of both worlds, said by the run and by the audit
    assert "violated" not in said
    assert "causal" in (place / "net" / "explored").read_text()


def own_protocol(_place, said):
    assert said.count("verdict: clean") == 4, said  # three seeds, and one run of processes
    assert said.count("verdict: violated") == 1, said  # by the protocol that is to be outdone


def components(place, said):
    got = (place / "net" / "got").read_text().splitlines()
    assert [f"total={5 * number}" in line for number, line in enumerate(got, start=1)] == [True] * 100, said
    assert "b has ended with 0" in said
    assert "sales, a turnover, at a works" in said


def secure(place, said):
    got = (place / "net" / "got").read_text().splitlines()
    assert [line.split()[1:] for line in got] == [
        [f"amount={amount}", f'region="{region}"', 'topic="orders"'] for amount, region in ((5, "eu"), (7, "us"))
    ], said
    assert "revoked: client alice" in said


def a_machine_burns_down(place, said):
    got = (place / "net" / "got").read_text().splitlines()
    assert [line.split()[1] for line in got] == ["amount=50"] * 10 + ["amount=60"] * 10, said
    assert not (place / "net" / "b").exists()
    assert "not covered" not in (place / "net" / "tree").read_text(), said


EXPECTED = {
    "a-machine-burns-down.md": a_machine_burns_down,
    "first-subscription.md": first_subscription,
    "swap-under-load.md": swap_under_load,
    "own-protocol.md": own_protocol,
    "run-brokers.md": run_brokers,
    "reweave.md": reweave,
    "dashboard.md": dashboard,
    "components.md": components,
    "secure.md": secure,
}
