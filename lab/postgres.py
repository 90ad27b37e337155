"""A real PostgreSQL server for the length of a test or a measurement.

It runs in a temporary folder on a free port of 127.0.0.1, as an unprivileged user where we are root, because the server
refuses to be root.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from state.store.sql.migrate import upgrade_store

_HOMES = Path("/usr/lib/postgresql")
_SECONDS = 120


@dataclass
class Postgres:
    """A running server; ``bin`` holds its programs and ``data`` its files."""

    bin: Path
    data: Path
    port: int
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Make a database, empty or a copy of another, and return its URL."""
        name = f"tideover_{next(self._numbers)}"
        with psycopg.connect(host="127.0.0.1", port=self.port, user="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def new_store(self) -> str:
        """Make a database with an empty store in it, and return its URL."""
        url = self.new_database()
        upgrade_store(url)
        return url

    def guard(self, database: str, user: str, password: str) -> str:
        """Give a database to a new user, who is let in by a password alone; returns the URL with it."""
        with psycopg.connect(host="127.0.0.1", port=self.port, user="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
            connection.execute(f"ALTER DATABASE {database} OWNER TO {user}")
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.control("reload")
        return f"postgresql+psycopg://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def control(self, verb: str, *options: str) -> None:
        """Run ``pg_ctl``; raises ``CalledProcessError`` when it fails and ``TimeoutExpired`` after two minutes."""
        as_server_user(str(self.bin / "pg_ctl"), verb, "-D", str(self.data), "-w", *options)

    def start(self) -> None:
        # Without fsync a killed process loses nothing, only a killed machine would; tests take seconds, not minutes.
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.data} -c fsync=off"
        self.control("start", "-l", str(self.data / "log"), "-o", settings)

    def stop(self) -> None:
        self.control("stop", "-m", "immediate")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """No process of it moves, as in a paused container: the kernel acknowledges for it, and no process answers."""
        server = int((self.data / "postmaster.pid").read_text().split("\n")[0])
        os.kill(server, signal.SIGSTOP)  # first, so that it makes no more of them
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        processes = [server, *map(int, children)]
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in reversed(processes):
                os.kill(process, signal.SIGCONT)


@contextmanager
def running_postgres(bin_folder: Path, port: int) -> Iterator[Postgres]:
    """A server from nothing; everything is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="tideover-postgres-"))
    server = Postgres(bin=bin_folder, data=home / "data", port=port)
    try:
        if os.geteuid() == 0:
            shutil.chown(home, server_user())
        create = (str(server.bin / "initdb"), "-D", str(server.data), "-U", "postgres", "-A", "trust", "-E", "UTF8")
        as_server_user(*create, "--no-sync", "--locale=C.UTF-8")
        server.start()
        yield server
    finally:
        with suppress(subprocess.SubprocessError):
            server.stop()
        shutil.rmtree(home, ignore_errors=True)


def programs() -> Path | None:
    """The folder with both programs; the packaged ones first, because those on the path may be wrappers."""
    versions = sorted(_HOMES.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    on_path = shutil.which("pg_ctl")
    candidates = [*versions, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((path for path in candidates if (path / "initdb").exists() and (path / "pg_ctl").exists()), None)


def server_user() -> str:
    """An unprivileged user of this machine."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def as_server_user(*command: str) -> None:
    """Run a command to its end, not as root. The output goes to a file: a server would keep a pipe open."""
    user: dict[str, Any] = (
        {"user": server_user(), "group": pwd.getpwnam(server_user()).pw_gid} if os.geteuid() == 0 else {}
    )
    if user:
        user["extra_groups"] = []
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command, check=False, timeout=_SECONDS, stdout=output, stderr=subprocess.STDOUT, cwd="/", **user
        )
        if done.returncode:
            output.seek(0)
            raise subprocess.CalledProcessError(done.returncode, command, output.read().decode(errors="replace"))
