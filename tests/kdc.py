"""A real KDC of MIT Kerberos on the loopback, as Debian packages it, with key tables for a broker and a client."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.ports import free_port
from tests.waiting import until

REALM = "TIDEOVER.TEST"
BROKER, CLIENT = f"kafka/localhost@{REALM}", f"tideover@{REALM}"
INSTALL = "apt-get install krb5-kdc krb5-admin-server libkrb5-dev gcc, then pip install gssapi"
_SECONDS = 60.0


def lacks() -> str | None:
    """What a test with a KDC lacks here, with the line that installs it; None where nothing."""
    tools = [name for name in ("krb5kdc", "kadmin.local", "kdb5_util") if _tool(name) is None]
    missing = tools + ([] if find_spec("gssapi") else ["gssapi"])
    return f"a KDC needs {', '.join(missing)}: {INSTALL}" if missing else None


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass
class Kdc:
    """One realm; ``environment`` leads a process to it."""

    folder: Path
    environment: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def configuration(self) -> Path:
        return self.folder / "krb5.conf"

    def keytab(self, name: str) -> Path:
        return self.folder / f"{name}.keytab"

    def type(self, *words: str) -> None:
        """As the administrator on the KDC's host."""
        self._run("kadmin.local", "-r", REALM, "-q", " ".join(words))

    def add(self, principal: str, keytab: str) -> None:
        """A principal with a random key, which its key table has."""
        self.type("addprinc", "-randkey", principal)
        self.type("ktadd", "-k", str(self.keytab(keytab)), principal)

    def create(self) -> None:
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def start(self, port: int) -> None:
        with (self.folder / "kdc.log").open("ab") as log:
            command = [str(_tool("krb5kdc")), "-n", "-r", REALM]
            self.process = subprocess.Popen(command, env={**os.environ, **self.environment}, stdout=log, stderr=log)
        until(lambda: self._answers(port), "the KDC does not listen")

    def _answers(self, port: int) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "kdc.log").read_text(encoding="utf-8")
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), _SECONDS).close()
            return True
        return False

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(_SECONDS)

    def _run(self, tool: str, *words: str) -> None:
        command = [str(_tool(tool)), *words]
        subprocess.run(
            command, env={**os.environ, **self.environment}, check=True, capture_output=True, timeout=_SECONDS
        )


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """A realm with a principal for brokers on the loopback and one for Tideover."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    (folder / "krb5.conf").write_text(_CLIENTS % {"realm": REALM, "port": port}, encoding="ascii")
    (folder / "kdc.conf").write_text(_KDC % {"realm": REALM, "port": port, "folder": folder}, encoding="ascii")
    kdc = Kdc(folder, {"KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")})
    kdc.create()
    kdc.add(BROKER, "broker")
    kdc.add(CLIENT, "client")
    kdc.start(port)
    try:
        yield kdc
    finally:
        kdc.stop()


_CLIENTS = """[libdefaults]
default_realm = %(realm)s
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
%(realm)s = {
  kdc = 127.0.0.1:%(port)d
}
"""
_KDC = """[realms]
%(realm)s = {
  database_name = %(folder)s/principal
  key_stash_file = %(folder)s/stash
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:%(port)d
  max_life = 1h
}
[logging]
kdc = FILE:%(folder)s/kdc.log
"""
