"""Archives of classes: each is for one Java and one class path, and is there whole or not at all."""

import os
from pathlib import Path

import pytest

from streaming import class_archive
from streaming.class_archive import archive_of, archives, keep_trials, options


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEOVER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(class_archive.SETTING, raising=False)


def kept(program: str, *class_path: str) -> Path:
    archive = archive_of(program, class_path)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(b"classes")
    return archive


def test_without_an_archive_a_program_starts_as_it_always_did() -> None:
    assert options(archive_of("Kafka", ["a.jar"])) == []


def test_an_archive_is_mapped_by_a_program_with_its_class_path_only(tmp_path: Path) -> None:
    archive = kept("Kafka", "a.jar", "b.jar")
    assert f"-XX:SharedArchiveFile={archive}" in options(archive_of("Kafka", ["a.jar", "b.jar"]))
    for other in (["a.jar"], ["b.jar", "a.jar"], ["a.jar", "b.jar", "c.jar"]):
        assert options(archive_of("Kafka", other)) == []
    assert options(archive_of("driver", ["a.jar", "b.jar"])) == []


@pytest.mark.parametrize("entry", ["jars/*", "jars/one.jar"])
def test_a_jar_with_other_content_needs_another_archive(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").write_bytes(b"one")
    before = archive_of("driver", [entry])
    assert archive_of("driver", [entry]) == before
    (tmp_path / "jars" / "one.jar").write_bytes(b"another")
    assert archive_of("driver", [entry]) != before


def test_an_empty_entry_of_a_class_path_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = archive_of("driver", ["", "a.jar"])
    (tmp_path / "something").mkdir()
    assert archive_of("driver", ["", "a.jar"]) == before == archive_of("driver", ["a.jar"])


def test_a_session_without_a_class_archive_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = kept("Kafka", "a.jar")
    monkeypatch.setenv(class_archive.SETTING, "off")
    assert options(archive) == []


def test_an_archive_of_a_trial_run_is_put_in_place_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of("Kafka", ["a.jar"])
    with monkeypatch.context() as trial:
        trial.setenv(class_archive.SETTING, "write")
        reported = [options(archive)[0] for _ in range(2)]
    written = [Path(each.removeprefix("-XX:ArchiveClassesAtExit=")) for each in reported]
    assert len({*written, archive}) == 3, "two programs never write to one file, nor to where others read"
    for path in written:
        path.write_bytes(b"classes")
    assert options(archive) == []
    assert keep_trials() == [archive]
    assert list(archives().iterdir()) == [archive]
    assert options(archive) != []


def test_the_oldest_archives_go_when_there_are_many() -> None:
    made = [kept("Kafka", f"{number}.jar") for number in range(25)]
    for age, path in enumerate(reversed(made)):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    keep_trials()
    assert [path for path in made if path.exists()] == made[5:]
