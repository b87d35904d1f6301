"""Sessions: where they come from, and what they refuse."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pleach
from pleach.errors import MissingPartError, SettingsError
from pleach.spark.session import default_settings, is_local, load_spark, package_zip, spark_session


@pytest.mark.spark
def test_the_session_is_quiet_local_and_in_utc(spark):
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.driver.host") == "127.0.0.1"
    assert settings.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_workers_run_on_our_own_python(spark):
    def executable(batches):
        import pyarrow as pa  # noqa: PLC0415

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(executable, "python string").collect()
    assert Path(row.python).resolve() == Path(sys.executable).resolve()


@pytest.mark.spark
def test_asking_again_gives_the_same_session_and_leaves_it_as_it_is(spark):
    assert spark_session("local[2]", settings={"spark.sql.shuffle.partitions": "77"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.spark
def test_another_master_is_refused_while_a_session_runs(spark):
    with pytest.raises(SettingsError, match=r"session on local\[2\] already; stop it"):
        spark_session("local[1]")


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingPartError, match=r"pip install 'pleach\[spark\]'"):
        load_spark()


def test_only_masters_on_this_machine_are_bound_to_loopback():
    assert default_settings("spark://127.0.0.1:7077")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in default_settings("spark://cluster:7077")


def test_which_masters_have_executors_of_their_own():
    assert all(map(is_local, ("local", "local[*]", "local[2]")))
    assert not any(map(is_local, ("local-cluster[2,1,1024]", "spark://127.0.0.1:7077", "yarn")))


def test_the_shipped_package_is_whole_and_the_same_each_time(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = package_zip()
    first = archive.read_bytes()
    archive.unlink()
    assert package_zip().read_bytes() == first
    names = set(zipfile.ZipFile(archive).namelist())
    root = Path(pleach.__file__).parent.parent
    assert {path.relative_to(root).as_posix() for path in root.glob("pleach/**/*.py")} <= names


def test_the_shipped_package_can_be_imported_by_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = subprocess.run(
        [sys.executable, "-c", "import pleach.trace; print(pleach.trace.__file__)"],
        env={**os.environ, "PYTHONPATH": str(package_zip())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pleach-sources.zip" in said.stdout
