"""What a host's name lets others conclude: one and the same process table, and nothing about anybody else's."""

import socket
from pathlib import Path

import pytest

from orchestrator.lease import is_gone, this_process
from streaming.process import host_name, is_over

FIRST = "4026531836"
NAME = socket.gethostname()


@pytest.fixture(autouse=True)
def _outside_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def root(folder: Path, *, boot: str = "one", namespace: str = FIRST, machine: str | None = "a" * 32) -> Path:
    """A root file system, as far as the name of a host depends on it; no process is there."""
    (folder / "proc/self/ns").mkdir(parents=True)
    (folder / "proc/self/ns/pid").symlink_to(f"pid:[{namespace}]")
    (folder / "proc/sys/kernel/random").mkdir(parents=True)
    (folder / "proc/sys/kernel/random/boot_id").write_text(f"{boot}\n")
    (folder / "etc").mkdir()
    if machine is not None:
        (folder / "etc/machine-id").write_text(f"{machine}\n")
    return folder


def process_of(place: Path) -> str:
    return f"{this_process(place).rsplit(':', 2)[0]}:7:9"


def test_a_machine_that_booted_again_has_lost_its_processes(tmp_path: Path) -> None:
    before, after = root(tmp_path / "before"), root(tmp_path / "after", boot="two")
    assert host_name(before) == host_name(after)
    assert is_gone(process_of(before), after)


def test_a_new_machine_under_an_old_name_proves_nothing_of_the_old_one(tmp_path: Path) -> None:
    before, after = root(tmp_path / "before"), root(tmp_path / "after", boot="two", machine="b" * 32)
    assert host_name(before) != host_name(after)
    assert not is_gone(process_of(before), after)


@pytest.mark.parametrize("machine", [None, "", "uninitialized"])
def test_without_a_machine_id_another_boot_proves_nothing(tmp_path: Path, machine: str | None) -> None:
    before, after = root(tmp_path / "before", machine=machine), root(tmp_path / "after", boot="two", machine=machine)
    assert host_name(before) == f"{NAME}/{FIRST}"
    assert not is_gone(process_of(before), after)


def test_a_pod_on_another_node_proves_nothing_despite_a_machine_id(tmp_path: Path) -> None:
    before = root(tmp_path / "before", namespace="4026532201")
    after = root(tmp_path / "after", namespace="4026532201", boot="two")
    assert host_name(before) == host_name(after) == f"{NAME}/4026532201"
    assert not is_gone(process_of(before), after)


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "pod"])
def test_a_container_with_the_pid_namespace_of_its_host_is_a_container(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = root(tmp_path / "before"), root(tmp_path / "after", boot="two")
    if mark == "pod":
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    for place in () if mark == "pod" else (before, after):
        (place / mark).parent.mkdir(exist_ok=True)
        (place / mark).touch()
    assert not is_gone(process_of(before), after)


@pytest.mark.parametrize("namespace", [FIRST, "4026532201"])
@pytest.mark.parametrize("machine", [None, "a" * 32])
def test_in_the_same_boot_a_process_that_is_not_there_is_gone(
    tmp_path: Path, namespace: str, machine: str | None
) -> None:
    place = root(tmp_path, namespace=namespace, machine=machine)
    assert is_gone(process_of(place), place)


def test_in_the_same_boot_another_namespace_proves_nothing(tmp_path: Path) -> None:
    one, two = root(tmp_path / "1", namespace="4026532201"), root(tmp_path / "2", namespace="4026532202")
    assert not is_gone(process_of(one), two)


def test_the_id_of_a_machine_is_not_published(tmp_path: Path) -> None:
    assert "a" * 32 not in host_name(root(tmp_path))


def test_an_unknown_boot_proves_nothing() -> None:
    assert is_over("h/", "", 7, 9, here="h/", boot_here="") is None
    assert is_over(f"h/{FIRST}", "", 7, 9, here=f"h/{FIRST}", boot_here="one") is None
