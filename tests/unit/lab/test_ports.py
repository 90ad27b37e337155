"""Where a world's ports are in use, another block is taken, or the port is named before a broker starts."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import cluster, ports
from lab.errors import StartFailed
from lab.world import PORTS, Options, World


@pytest.fixture
def base() -> int:
    return ports.free_base_port()


@pytest.fixture
def busy(base: int) -> Iterator[list[int]]:
    """Two ports of the block, one for each cluster, on which a process listens."""
    with ExitStack() as stack:
        for port in (base, base + 8):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", port))
            listener.listen()
        yield [base, base + 8]


def test_another_block_is_used_where_one_port_of_the_wanted_one_is_in_use(base: int, busy: list[int]) -> None:
    assert ports.taken(range(base, base + PORTS)) == busy
    found = ports.base_port(base)
    assert found != base
    assert ports.taken(range(found, found + PORTS)) == []


def test_a_cluster_whose_port_is_in_use_says_which_and_starts_nothing(
    tmp_path: Path, base: int, busy: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.java.classpath", lambda kafka, say: "")
    world = World(directory=tmp_path, options=Options(base_port=base))
    with pytest.raises(
        StartFailed, match=f"^another process uses port {busy[0]}, {busy[1]} of this machine$"
    ) as caught:
        cluster.start(world, ["east-1", "west-1"], lambda _: None)
    assert "--base-port" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
