"""A PostgreSQL server for tests; its programs are installed first where that is allowed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lab import postgres
from lab.postgres import Postgres, programs
from tests.ports import free_port

_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "postgresql")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server from nothing; everything is gone afterwards."""
    with postgres.running_postgres(find_programs(), free_port()) as server:
        yield server


def find_programs() -> Path:
    """The folder of the newest server's programs, installed first where root may; skips the test without it."""
    found = programs()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with suppress(subprocess.SubprocessError):
            subprocess.run(["apt-get", "update"], check=True, timeout=300, capture_output=True)
            subprocess.run(_INSTALL, check=True, timeout=600, capture_output=True)
        found = programs()
    if found is not None:
        return found
    sentence = "PostgreSQL's initdb and pg_ctl were not found: install the package postgresql"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)
