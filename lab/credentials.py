"""Credentials of clusters in containers: made before the first broker starts, in a volume that all parts mount.

`secrets/<cluster>` holds what ``lab.access`` makes, and for its brokers `broker.properties` and `storage.arguments`;
`secrets/replicator.properties` is what MirrorMaker 2 gets in addition. The containers have users of their own, so
everything is readable by the group of its owner, and by no other user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.access import KINDS, REPLICATOR, Access, Kind
from lab.errors import LabError

FOLDER = "secrets"
LISTENERS = ("LOCAL", "LINK")
"""Of a broker, for clients: of its own site, and over the link."""

_FOLDER_MODE, _FILE_MODE = 0o750, 0o640


@dataclass(frozen=True)
class Wanted:
    """How one cluster is to be secured."""

    kind: Kind
    hosts: tuple[str, ...]
    """Every name that its brokers are reached by."""


def parse(words: Sequence[str]) -> dict[str, Wanted]:
    """Read `east=mtls:east-1,link` and the like. Raises LabError when one is not that."""
    found = {}
    for word in words:
        cluster, _, rest = word.partition("=")
        kind, _, hosts = rest.partition(":")
        known = next((each for each in KINDS if each == kind), None)
        if not cluster or known is None or not hosts:
            raise LabError(f"{word} is not CLUSTER=KIND:HOST,..., with a kind of {', '.join(KINDS)}")
        found[cluster] = Wanted(known, tuple(hosts.split(",")))
    return found


def make(directory: Path, wanted: Mapping[str, Wanted]) -> None:
    """Make what is not there yet. Raises StartFailed when openssl fails."""
    folder = directory / FOLDER
    settings: dict[str, object] = {}
    for cluster, each in wanted.items():
        access = Access(folder / cluster, each.kind, tuple(f"DNS:{host}" for host in each.hosts))
        access.make()
        _write(access.folder / "broker.properties", _lines(access.broker(LISTENERS)))
        _write(access.folder / "storage.arguments", "".join(f"{word}\n" for word in access.storage()))
        settings |= {f"{cluster}.{key}": value for key, value in access.java(REPLICATOR).items()}
        access.folder.chmod(_FOLDER_MODE)
        for path in access.folder.iterdir():
            path.chmod(_FILE_MODE)
    _write(folder / "replicator.properties", _lines(settings))


def _lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _write(path: Path, text: str) -> None:
    path.touch(mode=_FILE_MODE)
    path.write_text(text, encoding="ascii")
