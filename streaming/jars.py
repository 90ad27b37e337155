"""Keeps the jars of each engine and broker version: locked by content, fetched once, shared by every set.

A set is a lock file, one `group:artifact:version sha256` per line, shipped with the package. `--packages` at submit
time was the alternative. It resolves again on every machine, checks nothing but the server's own checksum, and goes to
the network in the middle of a failover. Here the network is touched on the first use of a set and never after. Jars
come from the repository or folder that is configured (``streaming.jarsets.repository``), else by Spark's own Ivy.

`python -m streaming.jars fetch SET...` prefetches, `python -m streaming.jars lock SET` resolves a lock again.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from state.errors import TideoverError
from streaming.errors import JarError
from streaming.jarsets import ivy
from streaming.jarsets.coordinate import Coordinate, Downloader, Watch
from streaming.jarsets.repository import configured
from streaming.jarsets.roots import ROOTS
from streaming.java import java_home_binary

__all__ = [
    "JarCache", "LockedJar", "cache_root", "held", "jar_paths", "java_home_binary", "parse_lock", "set_names",
]  # fmt: skip

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class LockedJar:
    """One line of a lock: which jar, and the only content it may have."""

    coordinate: Coordinate
    sha256: str

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError(f"not a sha256: {self.sha256}")

    def __str__(self) -> str:
        return f"{self.coordinate} {self.sha256}"


def jar_paths(name: str, *, progress: Progress | None = None) -> list[Path]:
    """Return the jars of a set, fetching what the cache lacks.

    A returned jar had the locked sha256 when it was fetched and has the recorded size now. Two processes may call this
    at once: the second waits and finds the work done. Raises JarError, and JavaMissing where only Ivy can fetch.
    """
    return JarCache(cache_root() / "jars", _download).paths(name, _read_lock(name), progress or _silent)


def _download(wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch) -> dict[Coordinate, Path]:
    """Bring jars from the repository or folder that is configured, else with Ivy and its own default."""
    source = configured(os.environ, Path.home())
    bring: Downloader = ivy.download if source is None else source.download
    return bring(wanted, work, transitive=transitive, watch=watch)


def set_names() -> list[str]:
    """Return the names of the sets that have a lock."""
    return sorted(entry.name.removesuffix(".lock") for entry in _locks().iterdir() if entry.name.endswith(".lock"))


def parse_lock(text: str) -> list[LockedJar]:
    """Read a lock; ValueError names the first line that is not one."""
    jars: list[LockedJar] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        try:
            coordinate, sha256 = words
            jars.append(LockedJar(coordinate=Coordinate.parse(coordinate), sha256=sha256))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return jars


class JarCache:
    """The jars on this machine, one file each, with a record beside it of the content that was verified."""

    def __init__(self, root: Path, download: Downloader) -> None:
        self._root = root
        self._download = download

    def paths(self, name: str, locked: Sequence[LockedJar], progress: Progress) -> list[Path]:
        """Return the jars of one lock, in its order, fetching those that are not here as locked."""
        if self._missing(locked):
            self._root.mkdir(parents=True, exist_ok=True)
            with held(self._root / ".lock", lambda: progress(f"{name}: waiting for another process that fetches")):
                missing = self._missing(locked)  # the process we waited for may have done it
                if missing:
                    self._fetch(name, missing, progress)
        return [self._path(jar) for jar in locked]

    def _path(self, jar: LockedJar) -> Path:
        return self._root / jar.coordinate.cache_name

    def _missing(self, locked: Sequence[LockedJar]) -> list[LockedJar]:
        return [jar for jar in locked if not self._verified(jar)]

    def _verified(self, jar: LockedJar) -> bool:
        path = self._path(jar)
        try:
            return _record(path).read_text(encoding="ascii") == f"{jar.sha256} {path.stat().st_size}\n"
        except OSError:
            return False

    def _fetch(self, name: str, missing: Sequence[LockedJar], progress: Progress) -> None:
        progress(f"fetching {name}: {len(missing)} jars (once, into {_for_people(self._root)})")
        work = self._root / ".fetching"  # kept when a run is cut short, so that the next one continues from there
        brought = self._download(
            [jar.coordinate for jar in missing],
            work,
            transitive=False,
            watch=lambda count, size: progress(
                f"{name}: {min(count, len(missing))} of {len(missing)} jars, {size / 1e6:.1f} MB"
            ),
        )
        for jar in missing:
            if jar.coordinate in brought:
                self._admit(name, jar, brought[jar.coordinate])
        absent = [str(jar.coordinate) for jar in missing if jar.coordinate not in brought]
        if absent:
            raise JarError(
                f"{name}: {len(absent)} of {len(missing)} jars could not be fetched, first {absent[0]}",
                hint="run it again: the jars that did arrive are kept",
            )
        shutil.rmtree(work, ignore_errors=True)
        progress(f"{name}: {len(missing)} jars fetched and verified")

    def _admit(self, name: str, jar: LockedJar, downloaded: Path) -> None:
        """Move a download into the cache, or remove it when it is not what the lock says."""
        sha256 = _sha256(downloaded)
        if sha256 != jar.sha256:
            downloaded.unlink()
            raise JarError(
                f"{name}: {jar.coordinate} has sha256 {sha256}, the lock says {jar.sha256}; the file was removed",
                hint="run it again; if it repeats, the repository or something on the way to it serves another jar",
            )
        path = self._path(jar)
        path.parent.mkdir(parents=True, exist_ok=True)
        size = downloaded.stat().st_size
        _record(path).unlink(missing_ok=True)
        downloaded.replace(path)
        _write_whole(_record(path), f"{sha256} {size}\n")


def lock_text(name: str, resolve: Downloader, progress: Progress) -> str:
    """Resolve a set from its roots and return the lock that pins the outcome."""
    try:
        roots = ROOTS[name]
    except KeyError:
        raise JarError(f"no roots for a set named {name}", hint=f"known sets: {', '.join(sorted(ROOTS))}") from None
    wanted = [Coordinate.parse(text) for text in roots.coordinates]
    progress(f"{name}: resolving {len(wanted)} roots")
    with tempfile.TemporaryDirectory(prefix="tideover-lock-") as folder:
        found = resolve(
            wanted, Path(folder), transitive=roots.transitive, watch=lambda count, _: progress(f"{name}: {count} jars")
        )
        absent = [str(coordinate) for coordinate in wanted if coordinate not in found]
        if absent:
            raise JarError(f"{name}: not available, so nothing was locked: {', '.join(absent)}")
        kept = sorted(each for each in found if f"{each.group}:{each.artifact}" not in roots.without)
        locked = [LockedJar(coordinate=each, sha256=_sha256(found[each])) for each in kept]
    return "".join(f"{jar}\n" for jar in locked)


def _read_lock(name: str) -> list[LockedJar]:
    lock = _locks() / f"{name}.lock"
    if not lock.is_file():
        raise JarError(f"no jar set named {name}", hint=f"known sets: {', '.join(set_names())}")
    try:
        return parse_lock(lock.read_text(encoding="utf-8"))
    except ValueError as error:
        raise JarError(f"the lock of {name} is damaged: {error}", hint="install Tideover again") from error


def _locks() -> Path:
    return Path(str(resources.files("streaming"))) / "jarsets"


def cache_root() -> Path:
    """The folder of what is fetched or made once on this machine: ``TIDEOVER_CACHE``, or one in the home."""
    configured = os.environ.get("TIDEOVER_CACHE")
    return (Path(configured).expanduser() if configured else Path.home() / ".cache" / "tideover").resolve()


def _record(jar: Path) -> Path:
    return jar.with_name(jar.name + ".verified")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that no reader ever sees half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


@contextlib.contextmanager
def held(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel lets go of it when the process dies, so none is ever stale.

    ``on_wait`` is called when another process holds it.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _for_people(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _silent(_: str) -> None:
    """Take a progress line and say nothing."""


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch sets, or lock them again; progress goes to stderr, so that the paths on stdout can be piped."""
    parser = argparse.ArgumentParser(prog="python -m streaming.jars", description="Fetch and lock jar sets.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("fetch", help="fetch sets into the cache and print their paths").add_argument("sets", nargs="+")
    verbs.add_parser("lock", help="resolve sets again and write their locks").add_argument("sets", nargs="+")
    chosen = parser.parse_args(arguments)
    try:
        for name in chosen.sets:
            if chosen.verb == "lock":
                text = lock_text(name, ivy.download, _say)
                _write_whole(_locks() / f"{name}.lock", text)
                _say(f"{name}: {len(text.splitlines())} jars locked")
            else:
                sys.stdout.writelines(f"{path}\n" for path in jar_paths(name, progress=_say))
    except TideoverError as error:
        _say(f"{error}\n{error.hint}".rstrip())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
