"""Where a report comes from: commit, time, machine. Every generator reads them here. A changed checkout is refused.

Nothing here names a host, a user or a path.
"""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from reports.errors import DirtyTree, NoCommit
from streaming.errors import JavaMissing
from streaming.java import java_home_binary, version

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ("docs/reports",)
"""What `make reports` writes itself: changes there change nothing that is measured."""
CHANGED = "+changes"
_SHORT = 12


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The commit that a report is of, when it was begun, and on what."""

    revision: str
    """The whole id of the commit."""
    changed: bool
    """Whether files differ from the commit: a draft, which is never published."""
    made: str
    """UTC, to the minute."""
    machine: str

    @property
    def commit(self) -> str:
        """Short id; ends with ``+changes`` in a draft."""
        return self.revision[:_SHORT] + (CHANGED if self.changed else "")

    def folder(self, root: Path = ROOT) -> Path:
        """Where generators leave their pages: one folder for each commit."""
        return root / "build" / "reports" / self.commit


def origin(root: Path = ROOT, *, draft: bool | None = None) -> Origin:
    """The origin of a report that begins now.

    Raises DirtyTree where files differ from the commit, unless ``draft`` (``None``: the variable DRAFT is set) allows
    that, and NoCommit outside of git.
    """
    allowed = bool(os.environ.get("DRAFT")) if draft is None else draft
    found = changes(root)
    if found and not allowed:
        otherwise = ", or set DRAFT=1 for a page that is never published" if draft is None else ""
        raise DirtyTree(
            f"A report names its commit, but the checkout differs from it ({_named(found)}): commit or remove that"
            f"{otherwise}."
        )
    now = datetime.now(UTC)
    return Origin(
        revision=revision(root), changed=bool(found), made=f"{now:%Y-%m-%d %H:%M} UTC", machine=", ".join(machine())
    )


def unchanged(on: Origin, root: Path = ROOT) -> None:
    """Raises DirtyTree where the checkout is no longer what it was at the start; a draft may change.

    Called before a run is kept: what ran on other files would be found later as one of this commit.
    """
    if not on.changed and (revision(root) != on.revision or changes(root)):
        raise DirtyTree(f"Files changed during the run: what ends now is not of commit {on.commit}, and is not kept.")


def revision(root: Path = ROOT) -> str:
    """The whole id of the commit that is checked out. Raises NoCommit."""
    return git(root, "rev-parse", "HEAD")


def changes(root: Path = ROOT) -> list[str]:
    """The files that differ from the commit, new ones too; not those that `make reports` writes. Raises NoCommit."""
    left_out = [f":!{path}" for path in PUBLISHED]
    lines = git(root, "status", "--porcelain", "--untracked-files=all", "--", ".", *left_out).splitlines()
    return [line.split(maxsplit=1)[1] for line in lines]


def _named(files: list[str]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return files[0] + more


def git(root: Path, *arguments: str) -> str:
    """What git prints. Raises NoCommit where it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise NoCommit("git is not installed, so no report can name its commit.") from error
    if done.returncode:
        raise NoCommit(f"git {arguments[0]} failed, so no report can name its commit: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def machine() -> list[str]:
    """Cores, memory, processor, Java and Python, each in words."""
    return [f"{cores()} cores", memory(), processor(), f"Java {java()}", f"Python {platform.python_version()}"]


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def memory() -> str:
    """Of the whole machine."""
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def processor() -> str:
    """Its model."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def java() -> str:
    """The version of the Java that Spark and the brokers run on."""
    try:
        return version(java_home_binary()) or "unknown"
    except JavaMissing:
        return "unknown"
