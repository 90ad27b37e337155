"""Programs that tests build with the Go toolchain: once, into the folder where jars lie, too."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from streaming.jars import cache_root, held

_BUILD_SECONDS = 1500.0


@dataclass(frozen=True)
class GoProgram:
    """A program that the Go module proxy has."""

    name: str
    module: str
    version: str

    def find(self) -> str:
        """The program, built first where Go is; skips the test without it."""
        found = shutil.which(self.name)
        if found is not None:
            return found
        program = cache_root() / "tools" / f"{self.name}-{self.version}"
        program.parent.mkdir(parents=True, exist_ok=True)
        go = shutil.which("go")
        with held(program.parent / f".{self.name}", lambda: None):
            if not program.is_file() and go is not None:
                self._build(go)
        if program.is_file():
            return str(program)
        sentence = f"{self.name} was not found, and no Go to build it with"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)

    def _build(self, go: str) -> None:
        tools = cache_root() / "tools"
        sys.stderr.write(f"building {self.name} {self.version} (once, two minutes)\n")
        scratch = tools / f".build-{self.name}"
        done = subprocess.run(
            [go, "install", f"{self.module}@{self.version}"], env={**os.environ, "GOBIN": str(scratch)},
            capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.fail(f"{self.name} could not be built:\n{done.stderr[-2000:]}")
        (scratch / self.name).replace(tools / f"{self.name}-{self.version}")
