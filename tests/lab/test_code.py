"""Which code measured: everything that the measurement imports, and nothing else."""

from pleach.lab import code_digest
from pleach.lab.beyond.hops import HOPS_BY_POLICY

REACHED = code_digest._reached_from("pleach.lab.beyond.hops")


def test_what_the_simulator_stands_on_counts():
    measured = "pleach.lab.beyond.hops"
    assert {measured, "pleach.sim.run", "pleach.core.broker", "pleach.core.events.filter"} <= REACHED


def test_commands_pictures_and_other_worlds_do_not_count():
    rooms = ("cli.", "server", "client", "net", "operate", "harness", "spark", "bench", "lab.figure_", "lab.report")
    strangers = tuple(f"pleach.{room}" for room in rooms)
    assert not [name for name in sorted(REACHED) if name.startswith(strangers)]


def test_a_version_changes_with_the_code_and_not_with_its_layout(tmp_path, monkeypatch):
    module = tmp_path / "pleach_toy_measure.py"
    monkeypatch.setattr(code_digest, "_source", {"toy": module}.get)

    def version(text):
        module.write_text(text)
        code_digest._parsed.cache_clear()
        code_digest._imported_by.cache_clear()
        return code_digest._digest(["toy"])

    try:
        plain = version("x = 1\n")
        assert version("x  =  1  # one\n") == plain
        assert version("x = 2\n") != plain
    finally:
        code_digest._parsed.cache_clear()
        code_digest._imported_by.cache_clear()


def test_the_version_is_that_of_the_package_and_a_digest():
    assert code_digest.code_version(HOPS_BY_POLICY) == code_digest.code_version(HOPS_BY_POLICY)
    assert code_digest.code_version(HOPS_BY_POLICY).startswith("0.1.0+")
