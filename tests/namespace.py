"""A network namespace with one cable to each cluster, which a test can pull; needs root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

RELAY = (sys.executable, "-m", "tests.relay")


@dataclass(frozen=True)
class Cable:
    """A pair of virtual Ethernet devices; addresses of a range that RFC 5737 keeps free for examples."""

    outer: str
    outer_address: str
    inner: str
    inner_address: str


@dataclass(frozen=True)
class Namespace:
    """A place on this host that reaches each cluster through one cable only, and through one relay at its near end."""

    name: str
    cables: Mapping[str, Cable]
    ports: Mapping[str, Sequence[int]]
    relays: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    """By cluster, the relay inside."""

    def command(self, *command: str) -> list[str]:
        """The command, run inside. Files, processes and users are those outside."""
        return ["nsenter", f"--net=/run/netns/{self.name}", "--", *command]

    def cut(self, cluster: str) -> None:
        """Pull the cable: nothing comes through, and no one gets word of it."""
        ip("link", "set", self.cables[cluster].outer, "down")

    def mend(self, cluster: str) -> None:
        ip("link", "set", self.cables[cluster].outer, "up")

    def refuse(self, cluster: str) -> None:
        """Kill the relay: open connections are closed and new ones refused at once, as by a load balancer that died."""
        relay = self.relays.pop(cluster)
        relay.kill()
        relay.communicate()

    def accept(self, cluster: str) -> None:
        """Start the relay, for the first time or again."""
        far = self.cables[cluster].outer_address
        pairs = [f"127.0.0.1:{port}={far}:{port}" for port in self.ports[cluster]]
        self.relays[cluster] = relaying(self.command(*RELAY, *pairs))


@contextmanager
def cabled(ports: Mapping[str, Sequence[int]]) -> Iterator[Namespace]:
    """A namespace in which the loopback's ``ports`` lead to those of the host, over one cable a cluster."""
    if os.geteuid() != 0 or any(shutil.which(each) is None for each in ("ip", "nsenter")):
        pytest.skip("a network namespace needs root, ip (iproute2) and nsenter (util-linux)")
    name = f"tideover-{os.getpid()}"
    cables = {
        cluster: Cable(f"tide{index}o{os.getpid() % 10000}", f"198.51.100.{4 * index + 1}",
                       f"tide{index}i{os.getpid() % 10000}", f"198.51.100.{4 * index + 2}")
        for index, cluster in enumerate(ports)
    }  # fmt: skip
    made, outside = Namespace(name, cables, ports), list["subprocess.Popen[bytes]"]()
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        for cable in cables.values():
            ip("link", "add", cable.outer, "type", "veth", "peer", "name", cable.inner, "netns", name)
            ip("address", "add", f"{cable.outer_address}/30", "dev", cable.outer)
            ip("link", "set", cable.outer, "up")
            ip("-n", name, "address", "add", f"{cable.inner_address}/30", "dev", cable.inner)
            ip("-n", name, "link", "set", cable.inner, "up")
        for cluster, these in ports.items():
            near = cables[cluster].outer_address
            outside.append(relaying([*RELAY, *(f"{near}:{port}=127.0.0.1:{port}" for port in these)]))
            made.accept(cluster)
        yield made
    finally:
        for process in (*outside, *made.relays.values()):
            process.kill()
            process.communicate()
        for cable in cables.values():
            with suppress(subprocess.CalledProcessError):
                ip("link", "delete", cable.outer)
        ip("netns", "delete", name)


def relaying(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """A relay that listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=120)
