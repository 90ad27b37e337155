"""What a real ResourceManager and a real NodeManager show of the end of an attempt, and an application on both.

``tests/real/test_yarn_attached.py`` has the driver in YARN's cluster mode.
"""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from streaming.spark.masters import yarn as evidence
from streaming.spark.masters.yarn import applications, attempt_ended
from tests.waiting import until
from tests.yarn_cluster import Yarn, attempt_of, container_of, processes_of, yarn_cluster

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.timeout(900)]
SECONDS = 240.0


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn_cluster(tmp_path_factory.mktemp("yarn") / "cluster") as made:
        yield made


def begun(yarn: Yarn, attempt: str) -> int:
    """The process of an attempt that runs."""
    until(lambda: yarn.state_of(attempt) == "LAUNCHED" and sleepers(attempt), attempt, seconds=SECONDS)
    (pid,) = sleepers(attempt)
    return pid


def sleepers(attempt: str) -> list[int]:
    """The process of an attempt, without the shell by which its node started it."""
    running = processes_of(container_of(attempt))
    return [pid for pid in running if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")]


def ended(yarn: Yarn, attempt: str) -> bool:
    return attempt_ended(yarn.url, attempt).is_proven


def test_the_end_of_an_attempt_is_proven_by_its_exit_code(yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_CLOCK_MS", 0)  # the node is younger than a minute
    application = yarn.submit_sleep()
    first, second = (attempt_of(application, number) for number in (1, 2))
    pid = begun(yarn, first)
    assert attempt_ended(yarn.url, first).detail == f"YARN says that {first} is LAUNCHED"
    os.kill(pid, signal.SIGKILL)
    until(partial(ended, yarn, first), "the end of the first attempt is proven", seconds=SECONDS)
    assert attempt_ended(yarn.url, first).detail == f"YARN says that {first} ended with exit code 137"
    begun(yarn, second)
    assert not ended(yarn, second)
    yarn.kill_application(application)
    until(partial(ended, yarn, second), "the end of the second attempt is proven", seconds=SECONDS)
    assert processes_of(container_of(second)) == []
    assert "is KILLED, and its node" in attempt_ended(yarn.url, second).detail
    (listed,) = (each for each in applications(yarn.url) if each.id == application)
    assert (listed.name, listed.state, listed.is_running) == ("sleeper", "KILLED (KILLED)", False)
    unknown = attempt_of(application, 3)
    assert attempt_ended(yarn.url, unknown).detail == f"YARN does not know {unknown}"


def test_the_attempt_of_a_lost_node_is_not_over(yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """YARN gives the attempt up, and would start the next one elsewhere, while its process runs on."""
    monkeypatch.setattr(evidence, "_CLOCK_MS", 0)
    application = yarn.submit_sleep()
    attempt = attempt_of(application, 1)
    pid = begun(yarn, attempt)
    yarn.send("node", signal.SIGSTOP)
    try:
        until(lambda: yarn.state_of(attempt) == "FAILED", "YARN gives the attempt up", seconds=SECONDS)
        assert sleepers(attempt) == [pid]
        ending = attempt_ended(yarn.url, attempt)
        assert (ending.is_proven, "its node cannot confirm that" in ending.detail) == (False, True), ending.detail
    finally:
        yarn.send("node", signal.SIGCONT)
    until(partial(ended, yarn, attempt), "the node is back and confirms the end", seconds=SECONDS)
    assert processes_of(container_of(attempt)) == []
    yarn.kill_application(application)
