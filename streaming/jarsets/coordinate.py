"""How one jar is named, and what brings jars into a folder."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SEPARATOR = "~"
Watch = Callable[[int, int], None]
"""Called during a download, with the number of jars that are there and their bytes."""


@dataclass(frozen=True, order=True)
class Coordinate:
    """One jar as Maven names it."""

    group: str
    artifact: str
    version: str
    classifier: str = ""

    def __post_init__(self) -> None:
        parts = (self.group, self.artifact, self.version)
        if not all(re.fullmatch(r"[\w.+-]+", part) for part in parts) or not re.fullmatch(r"[\w.+-]*", self.classifier):
            raise ValueError(f"not a jar coordinate: {self}")

    @classmethod
    def parse(cls, text: str, separator: str = ":") -> "Coordinate":
        """Read `group:artifact:version[:classifier]`; ValueError when it is anything else."""
        parts = text.split(separator)
        if len(parts) not in (3, 4):
            raise ValueError(f"not a jar coordinate: {text}")
        return cls(*parts)

    def __str__(self) -> str:
        return self._joined(":")

    @property
    def download_name(self) -> str:
        """The file name under which a download leaves this jar, and from which the coordinate can be read back."""
        return self._joined(SEPARATOR) + ".jar"

    @property
    def file_name(self) -> str:
        """The file name as Maven writes it."""
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{tail}.jar"

    @property
    def cache_name(self) -> str:
        """The path of this jar inside the jar cache."""
        return f"{self.group}/{self.file_name}"

    @property
    def repository_name(self) -> str:
        """The path of this jar inside a Maven repository."""
        return "/".join((*self.group.split("."), self.artifact, self.version, self.file_name))

    def _joined(self, separator: str) -> str:
        return separator.join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)


class Downloader(Protocol):
    """Brings jars into a directory; what it could not bring is simply absent."""

    def __call__(
        self, wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch
    ) -> dict[Coordinate, Path]: ...


def arrived(work: Path) -> dict[Coordinate, Path]:
    """The jars that downloads left in a working folder, whole."""
    return {Coordinate.parse(path.stem, SEPARATOR): path for path in sorted((work / "jars").glob("*.jar"))}
