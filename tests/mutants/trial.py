"""One mutant against the fast tests, in a copy of the checkout."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.areas import FAST

_TEST_SECONDS = 60
_NARROW_SECONDS, _WHOLE_SECONDS = 300, 1_200
_NOTHING_RUN = 5
_OF_MUTANTS = "tests/unit/test_mutants.py"
"""It compares the program's text with the catalogue, so it would seem to kill each of those mutants."""


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a mutant."""

    killed: bool
    by: str
    """The first test that failed, or why it counts as killed; empty where it survived."""


class Copy:
    """A copy of the files that git knows, in which one mutant at a time lives."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._clock = 0
        named = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        for name in filter(None, named):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)

    def passes(self, tests: tuple[str, ...]) -> Outcome:
        """Run tests on the copy as it is; ``killed`` where any fails."""
        return self._run(tests, _WHOLE_SECONDS)

    def try_out(self, module: str, text: str, narrow: tuple[str, ...]) -> Outcome:
        """Put a module's text in place, run the tests, and take it back."""
        path = self.folder / module
        before = path.read_text(encoding="utf-8")
        self._write(path, text)
        try:
            first = self._run(narrow, _NARROW_SECONDS)
            return first if first.killed else self._run(FAST, _WHOLE_SECONDS)
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        self._clock += 2  # compiled files are distinguished by size and whole seconds
        os.utime(path, (self._clock, self._clock))

    def _run(self, tests: tuple[str, ...], seconds: int) -> Outcome:
        command = [
            sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly",
            "-m", "not real and not long", "--timeout", str(_TEST_SECONDS), "--ignore", _OF_MUTANTS, *tests,
        ]  # fmt: skip
        environment = {
            **os.environ, "PYTHONPATH": str(self.folder), "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder),
            "TIDEOVER_TESTS": "all",
        }  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return Outcome(killed=True, by=f"no end within {seconds} s")
        if done.returncode in {0, _NOTHING_RUN}:
            return Outcome(killed=False, by="")
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Outcome(killed=True, by=failed[0].split(" - ")[0] if failed else f"pytest ended with {done.returncode}")
