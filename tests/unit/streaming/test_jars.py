"""The jar cache without a network: a downloader that writes files takes the place of Ivy."""

import hashlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streaming import java
from streaming.errors import JarError, JavaMissing
from streaming.jars import JarCache, LockedJar, jar_paths, lock_text, parse_lock, set_names
from streaming.jarsets.coordinate import Coordinate, Watch
from streaming.jarsets.roots import ROOTS, Roots

CLIENTS = Coordinate.parse("org.apache.kafka:kafka-clients:3.9.1")
POOL = Coordinate.parse("org.apache.commons:commons-pool2:2.12.0")
NATIVE = Coordinate.parse("io.netty:netty-transport-native-epoll:4.1.105.Final:linux-x86_64")
CONTENT = {CLIENTS: b"clients", POOL: b"pool", NATIVE: b"native"}


@dataclass
class Repository:
    """Serves what it holds, and counts how often it was read."""

    holds: Mapping[Coordinate, bytes]
    requested: list[list[Coordinate]] = field(default_factory=list)

    def __call__(
        self, wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch
    ) -> dict[Coordinate, Path]:
        names = list(wanted)
        self.requested.append(names)
        work.mkdir(parents=True, exist_ok=True)
        served = [name for name in (self.holds if transitive else names) if name in self.holds]
        for name in served:
            (work / name.download_name).write_bytes(self.holds[name])
        watch(len(served), sum(len(self.holds[name]) for name in served))
        return {name: work / name.download_name for name in served}


def locked(*coordinates: Coordinate) -> list[LockedJar]:
    return [LockedJar(coordinate=each, sha256=hashlib.sha256(CONTENT[each]).hexdigest()) for each in coordinates]


def silent(_: str) -> None:
    pass


def test_a_lock_reads_back_what_it_was_written_from() -> None:
    jars = locked(CLIENTS, POOL, NATIVE)
    assert parse_lock("".join(f"{jar}\n" for jar in jars)) == jars


def test_a_lock_may_hold_comments_and_blank_lines() -> None:
    (jar,) = locked(POOL)
    assert parse_lock(f"# pinned\n\n{jar}\n") == [jar]


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.kafka:kafka-clients:3.9.1",
        f"org.apache.kafka:kafka-clients {'0' * 64}",
        f"org.apache.kafka:kafka-clients:3.9.1 {'0' * 63}",
        f"org.apache.kafka:kafka-clients:3.9.1 {'G' * 64}",
        f"org.apache.kafka:kafka-clients:../../etc {'0' * 64}",
        f'org.apache.kafka:"x":1 {"0" * 64}',
    ],
)
def test_a_lock_line_that_is_not_a_jar_is_refused_by_its_number(line: str) -> None:
    (good,) = locked(POOL)
    with pytest.raises(ValueError, match="line 2"):
        parse_lock(f"{good}\n{line}\n")


def test_every_set_with_roots_ships_a_lock_that_pins_those_roots() -> None:
    assert set_names() == sorted(ROOTS)
    for name, roots in ROOTS.items():
        lock = (Path(java.__file__).parent / "jarsets" / f"{name}.lock").read_text(encoding="utf-8")
        pinned = {str(jar.coordinate) for jar in parse_lock(lock)}
        assert set(roots.coordinates) <= pinned, name


def test_no_set_holds_two_versions_of_one_jar() -> None:
    for name in set_names():
        lock = (Path(java.__file__).parent / "jarsets" / f"{name}.lock").read_text(encoding="utf-8")
        modules = [(jar.coordinate.group, jar.coordinate.artifact) for jar in parse_lock(lock)]
        assert len(modules) == len(set(modules)), name


def test_a_missing_jar_set_is_fetched_and_verified_in_the_order_of_its_lock(tmp_path: Path) -> None:
    said: list[str] = []
    paths = JarCache(tmp_path, Repository(CONTENT)).paths("demo", locked(POOL, CLIENTS, NATIVE), said.append)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        "org.apache.commons/commons-pool2-2.12.0.jar",
        "org.apache.kafka/kafka-clients-3.9.1.jar",
        "io.netty/netty-transport-native-epoll-4.1.105.Final-linux-x86_64.jar",
    ]
    assert [path.read_bytes() for path in paths] == [b"pool", b"clients", b"native"]
    assert said == [
        f"fetching demo: 3 jars (once, into {tmp_path})",
        "demo: 3 of 3 jars, 0.0 MB",
        "demo: 3 jars fetched and verified",
    ]


def test_a_cached_set_needs_no_downloader_and_says_nothing(tmp_path: Path) -> None:
    jars = locked(CLIENTS, POOL)
    first = JarCache(tmp_path, Repository(CONTENT)).paths("demo", jars, silent)
    unreachable, said = Repository({}), list[str]()
    assert JarCache(tmp_path, unreachable).paths("demo", jars, said.append) == first
    assert unreachable.requested == []
    assert said == []


def test_only_what_the_cache_lacks_is_fetched(tmp_path: Path) -> None:
    repository = Repository(CONTENT)
    cache = JarCache(tmp_path, repository)
    cache.paths("small", locked(POOL), silent)
    cache.paths("large", locked(CLIENTS, POOL), silent)
    assert repository.requested == [[POOL], [CLIENTS]]


def test_a_jar_cut_short_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    repository = Repository(CONTENT)
    cache = JarCache(tmp_path, repository)
    (path,) = cache.paths("demo", locked(POOL), silent)
    path.write_bytes(b"po")
    assert cache.paths("demo", locked(POOL), silent)[0].read_bytes() == b"pool"
    assert len(repository.requested) == 2


def test_a_jar_cached_under_another_lock_is_fetched_again(tmp_path: Path) -> None:
    JarCache(tmp_path, Repository({POOL: b"older"})).paths(
        "demo", [LockedJar(coordinate=POOL, sha256=hashlib.sha256(b"older").hexdigest())], silent
    )
    (path,) = JarCache(tmp_path, Repository(CONTENT)).paths("demo", locked(POOL), silent)
    assert path.read_bytes() == b"pool"


def test_a_jar_with_another_content_is_refused_and_its_file_removed(tmp_path: Path) -> None:
    cache = JarCache(tmp_path, Repository({POOL: b"tampered"}))
    with pytest.raises(JarError, match=r"demo: org\.apache\.commons:commons-pool2:2\.12\.0 has sha256 .* was removed"):
        cache.paths("demo", locked(POOL), silent)
    assert list(tmp_path.rglob("*.jar")) == []


def test_a_refused_jar_is_fetched_afresh_by_the_next_call(tmp_path: Path) -> None:
    with pytest.raises(JarError):
        JarCache(tmp_path, Repository({POOL: b"tampered"})).paths("demo", locked(POOL), silent)
    (path,) = JarCache(tmp_path, Repository(CONTENT)).paths("demo", locked(POOL), silent)
    assert path.read_bytes() == b"pool"


def test_jars_that_arrived_are_kept_when_another_did_not(tmp_path: Path) -> None:
    with pytest.raises(JarError, match=r"1 of 2 jars could not be fetched, first org\.apache\.kafka:kafka-clients:"):
        JarCache(tmp_path, Repository({POOL: b"pool"})).paths("demo", locked(CLIENTS, POOL), silent)
    rest = Repository(CONTENT)
    JarCache(tmp_path, rest).paths("demo", locked(CLIENTS, POOL), silent)
    assert rest.requested == [[CLIENTS]]


def test_two_at_once_fetch_once(tmp_path: Path) -> None:
    repository, waiting = Repository(CONTENT), threading.Event()
    others: list[list[Path]] = []

    def other() -> None:
        others.append(JarCache(tmp_path, Repository({})).paths("demo", locked(POOL), lambda _: waiting.set()))

    second = threading.Thread(target=other)

    def slow(wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch) -> dict[Coordinate, Path]:
        second.start()
        assert waiting.wait(timeout=60.0)
        return repository(wanted, work, transitive=transitive, watch=watch)

    first = JarCache(tmp_path, slow).paths("demo", locked(POOL), silent)
    second.join(timeout=60.0)
    assert others == [first]


def test_an_unknown_set_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(JarError, match="no jar set named kafka-0") as refused:
        jar_paths("kafka-0")
    assert "kafka-4.3.1" in refused.value.hint
    assert refused.value.kind == "jars"


def test_a_lock_is_made_from_everything_the_roots_bring_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROOTS, "demo", Roots(coordinates=(str(CLIENTS),), transitive=True))
    text = lock_text("demo", Repository(CONTENT), silent)
    assert parse_lock(text) == locked(*sorted([CLIENTS, POOL, NATIVE]))


def test_a_lock_leaves_out_what_the_roots_say(monkeypatch: pytest.MonkeyPatch) -> None:
    without = frozenset({"org.apache.commons:commons-pool2"})
    monkeypatch.setitem(ROOTS, "demo", Roots(coordinates=(str(CLIENTS),), transitive=True, without=without))
    assert parse_lock(lock_text("demo", Repository(CONTENT), silent)) == locked(*sorted([CLIENTS, NATIVE]))


def test_nothing_is_locked_when_a_root_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROOTS, "demo", Roots(coordinates=(str(CLIENTS),), transitive=True))
    with pytest.raises(JarError, match=r"nothing was locked: org\.apache\.kafka:kafka-clients:3\.9\.1"):
        lock_text("demo", Repository({POOL: b"pool"}), silent)


def java_home(folder: Path, version: str) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    binary.chmod(0o755)
    return binary


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java at all."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java, "SYSTEM_HOMES", tmp_path / "jvm")
    java._find.cache_clear()
    (tmp_path / "jvm").mkdir()
    return tmp_path


def test_a_missing_java_is_said_in_one_line_with_what_to_install(bare: Path) -> None:
    with pytest.raises(JavaMissing, match=r"^Java 17 or newer was not found .*$") as missing:
        java.java_home_binary()
    assert "openjdk-17" in missing.value.hint


def test_java_home_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_home(bare / "jvm" / "java-17", "17.0.15")
    chosen = java_home(bare / "own", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(bare / "own"))
    assert java.java_home_binary() == chosen


def test_a_java_home_too_old_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_home(bare / "own", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(bare / "own"))
    serving = java_home(bare / "jvm" / "java-17", "17.0.15")
    assert java.java_home_binary() == serving


def test_the_home_of_a_program_is_that_of_the_java_that_serves(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_home(bare / "jvm" / "java-17", "17.0.15")
    assert java.java_home() == bare / "jvm" / "java-17"
    java_home(bare / "own", "11.0.13")
    monkeypatch.setenv("JAVA_HOME", str(bare / "own"))
    assert java.java_home() == bare / "jvm" / "java-17"
    java_home(bare / "newer", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(bare / "newer"))
    assert java.java_home() == bare / "newer"


def test_of_the_systems_javas_the_oldest_that_serves_is_chosen(bare: Path) -> None:
    java_home(bare / "jvm" / "a-25", "25")
    java_home(bare / "jvm" / "b-11", "11.0.2")
    serving = java_home(bare / "jvm" / "c-17", "17.0.15")
    assert java.java_home_binary() == serving
