"""Brokers, the replicator and a runner's driver map the archives of their classes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab import archive
from streaming.class_archive import archives
from tests.world import running_world

pytestmark = pytest.mark.real

DRIVER = """
import pathlib, sys
from state.settings.keys import Spark
from streaming.spark.query.session import open_session
session = open_session(Spark(master="local[1]"), name="a", instance="a", partitions=1, local_checkpoints=True)
pid = session._jvm.java.lang.ProcessHandle.current().pid()
print(pathlib.Path(f"/proc/{pid}/maps").read_text())
session.stop()
"""


@pytest.fixture(scope="module", autouse=True)
def made() -> list[Path]:
    return archive.make(print)


def test_a_driver_maps_the_archive_that_a_trial_run_made() -> None:
    done = subprocess.run([sys.executable, "-c", DRIVER], check=True, capture_output=True, text=True, timeout=120)
    assert f"{archives()}/driver-" in done.stdout


def test_brokers_and_the_replicator_map_theirs(tmp_path: Path) -> None:
    with running_world(tmp_path) as world:
        parts = json.loads(world.lab("status", "-o", "json"))["parts"]
        mapped = {part["name"]: Path(f"/proc/{part['pid']}/maps").read_text(encoding="utf-8") for part in parts}
    programs = {"east-1": "Kafka", "west-1": "Kafka", "replicator": "MirrorMaker"}
    assert {name for name, program in programs.items() if f"{archives()}/{program}-" in mapped[name]} == set(programs)


def test_archives_that_are_there_are_not_made_again(made: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in made}
    assert {path: path.stat().st_mtime_ns for path in archive.make(print)} == before
    assert capsys.readouterr().out == ""
