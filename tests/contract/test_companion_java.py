"""The companion's Java: tested, and in a jar that fits its record."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pyspark
import pytest

from streaming.companion import jar as shipped
from streaming.companion.jar import LINES, SOURCES, companion_jar, run_javac, sources_digest
from streaming.errors import CompanionError
from streaming.jars import jar_paths, set_names
from streaming.java import java_home_binary
from tests.contract.test_imports import ROOT
from tests.jars import spark_line
from tests.java import java_digest, run_junit
from tests.javas import OLDER, older_home
from tests.thorough import WHOLE

PYSPARK = Path(pyspark.__file__).parent / "jars"
PASSED = ROOT / "build" / "java-tests.passed"
"""What passed here last: the tests of the same Java take 20 s, so a quick run leaves them out."""


def test_the_java_passes_its_own_tests(tmp_path: Path) -> None:
    digest = java_digest()
    if not WHOLE and PASSED.is_file() and PASSED.read_text(encoding="utf-8") == digest:
        return
    reported = run_junit(tmp_path)
    assert reported.returncode == 0, reported.stdout
    PASSED.parent.mkdir(exist_ok=True)
    PASSED.write_text(digest, encoding="utf-8")


def test_the_jar_holds_a_class_for_every_spark_that_has_a_connector() -> None:
    with zipfile.ZipFile(companion_jar()) as jar:
        held = set(jar.namelist())
    assert {f"spark-{line.spark}" for line in LINES} == {each for each in set_names() if each.startswith("spark-")}
    assert {f"{line.manager.replace('.', '/')}.class" for line in LINES} <= held


def test_the_jar_brings_no_class_but_ours_and_lists_them_all() -> None:
    with zipfile.ZipFile(companion_jar()) as jar:
        held = set(jar.namelist())
        listed = jar.read("tideover/classes.txt").decode().splitlines()
    classes = {f"{name.replace('.', '/')}.class" for name in listed}
    assert held == classes | {"META-INF/MANIFEST.MF", "tideover/classes.txt"}
    assert all(name.startswith("tideover/") for name in classes)


def test_every_class_is_for_the_java_that_the_page_names() -> None:
    with zipfile.ZipFile(companion_jar()) as jar:
        classes = [jar.read(name) for name in jar.namelist() if name.endswith(".class")]
    (format_number,) = {int.from_bytes(each[6:8], "big") for each in classes}
    page = (Path(__file__).parents[2] / "docs" / "companion.md").read_text(encoding="utf-8")
    assert f"| Java | {format_number - 44} or newer" in page


def fits(*class_path: Path | str, java: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """What the companion finds in the Spark of a class path; its exit code is 0 where it fits."""
    words = [str(java or java_home_binary()), "-cp", os.pathsep.join(map(str, class_path)), "tideover.SparkBuild"]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


def test_the_companion_finds_the_classes_that_serve_the_installed_spark(tmp_path: Path) -> None:
    """Nothing reads a version. Where one class is gone or has lost a method, the first of them is named."""
    spark, connector = PYSPARK / "*", jar_paths(f"spark-{pyspark.__version__}")
    found = fits(companion_jar(), *connector, spark)
    assert (found.returncode, found.stdout.strip()) == (0, spark_line().manager), found.stderr
    changed = tmp_path / "tideover" / "of"
    changed.mkdir(parents=True)
    package = spark_line().sparks_package
    lost = tmp_path / "CheckpointFileManager.java"
    lost.write_text(f"package {package}; public interface CheckpointFileManager {{ void more(); }}", encoding="utf-8")
    run_javac([lost], [], changed)
    found = fits(changed, companion_jar(), *connector, spark)
    assert found.returncode == 1
    assert found.stdout.startswith("this Spark lacks ")
    assert "which the companion needs" in found.stdout
    assert fits(companion_jar()).stdout.startswith("this Spark has no org.apache.spark.sql.execution.streaming.")


def test_a_kafka_connector_of_another_scala_does_not_fit() -> None:
    """Else each query would fail at its first batch, in a Spark of which the companion said that it fits."""
    spark, older = PYSPARK / "*", jar_paths("spark-3.5.7")
    found = fits(companion_jar(), *older, spark)
    assert found.returncode == 1
    assert found.stdout.startswith("the Kafka connector is not for this Spark and its Scala, which lacks scala.")
    clients = [path for path in older if not path.name.startswith("spark-sql-kafka")]
    alone = fits(companion_jar(), *clients, spark)
    assert "lacks org.apache.spark.sql.kafka010.KafkaSourceProvider" in alone.stdout


@pytest.mark.parametrize("major", OLDER)
@pytest.mark.parametrize("spark", ["3.4.4", "3.5.7"])
def test_the_companion_fits_an_older_spark_on_an_older_java(spark: str, major: int) -> None:
    """It loads each of its classes and finds every part of that Spark that they use. Loggers come from this Spark."""
    java = older_home(major) / "bin" / "java"
    loggers = [path for path in PYSPARK.iterdir() if path.name.startswith(("log4j-", "slf4j-api"))]
    found = fits(companion_jar(), *jar_paths(f"spark-{spark}"), *jar_paths(f"companion-{spark}"), *loggers, java=java)
    (line,) = (each for each in LINES if each.spark == spark)
    assert (found.returncode, found.stdout.strip()) == (0, line.manager), found.stdout + found.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the jar and its record, as a wheel brings them."""
    jar = companion_jar()
    for path in (jar, jar.with_name("companion.json")):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where a jar was built, instead of building it."""
    built: list[Path] = []

    def build(target: Path, progress: object) -> None:
        built.append(target)
        target.write_bytes(b"a new jar")

    monkeypatch.setattr(shipped, "build", build)
    return built


def test_a_jar_that_fits_its_record_and_the_sources_is_used_as_it_is(folder: Path, builds: list[Path]) -> None:
    assert companion_jar(folder=folder) == folder / "companion.jar"
    assert builds == []


def test_a_jar_of_other_sources_is_built_again(folder: Path, builds: list[Path]) -> None:
    record = folder / "companion.json"
    answer = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps(answer | {"sources": "0" * 64}), encoding="utf-8")
    companion_jar(folder=folder)
    companion_jar(folder=folder)
    assert builds == [folder / "companion.jar"], "once"


def test_a_jar_that_was_changed_is_not_used(folder: Path, builds: list[Path]) -> None:
    with (folder / "companion.jar").open("ab") as jar:
        jar.write(b"x")
    companion_jar(folder=folder)
    assert (folder / "companion.jar").read_bytes() == b"a new jar"


def test_where_it_cannot_be_built_a_changed_jar_is_refused(
    folder: Path, builds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "companion.json").unlink()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(CompanionError, match="not the one that was shipped"):
        companion_jar(folder=folder)


def test_the_digest_depends_on_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources_digest()
    shutil.copytree(SOURCES, tmp_path / "java")
    monkeypatch.setattr("streaming.companion.jar.SOURCES", tmp_path / "java")
    assert sources_digest() == before
    renamed = tmp_path / "java" / "tideover" / "Fence.java"
    renamed.rename(renamed.with_name("Fences.java"))
    assert sources_digest() != before


@pytest.mark.parametrize(("constant", "changed"), [("JAVA", 11), ("_OPTIONS", ()), ("BUILT", LINES[-1:])])
def test_the_digest_depends_on_how_sources_are_compiled(
    monkeypatch: pytest.MonkeyPatch, constant: str, changed: object
) -> None:
    before = sources_digest()
    monkeypatch.setattr(f"streaming.companion.jar.{constant}", changed)
    assert sources_digest() != before
