"""A secured world of the lab: replicated, written to, and looked at with what its `tideover.yaml` says."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.access import KINDS, Access
from orchestrator.cli.app import main
from orchestrator.config.load import load
from tests.waiting import until
from tests.world import ROOT, RunningWorld, running_world

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "scram" else pytest.mark.long) for kind in KINDS]
)
def test_a_secured_world_replicates_and_refuses_who_has_no_credentials(kind: str, tmp_path: Path) -> None:
    with running_world(tmp_path, secured=kind) as world:
        foreign = records_on(world, "west")  # the offsets of the clusters differ by them
        assert world.traffic(rate=200, seconds=1)["acked"] == 200
        until(lambda: records_on(world, "west") >= foreign + 200, "all is replicated")
        assert records_on(world, "west") == foreign + 200
        for cluster in ("east", "west"):
            assert stat.S_IMODE((world.directory / "secrets" / cluster).stat().st_mode) == 0o700
            assert [row["error"] for row in looked(world, cluster, "orders")] == [None] * 4
        assert [row["error"] for row in looked(world, "west", "east.heartbeats")] == [None]
        refused = looked(world, "west", "heartbeats", code=2)["error"]["text"]
        assert "our user has no ACL that allows Describe on topic heartbeats" in refused
        passwords = [path.read_text().strip() for path in world.directory.glob("secrets/*/*.password")]
        assert len(passwords) == (0 if kind == "mtls" else 6)
        assert not any(word in world.config.read_text() for word in passwords)
        assert_init_finds_both(world, tmp_path)


def assert_init_finds_both(world: RunningWorld, folder: Path) -> None:
    """``init`` logs in as Tideover's own user by files such as Kafka's tools take."""
    made, words = folder / "init" / "tideover.yaml", ["init"]
    made.parent.mkdir()
    for cluster in ("east", "west"):
        access = Access.found(world.directory / "secrets" / cluster)
        assert access is not None
        file = folder / f"{cluster}.properties"
        lines = (f"{key}={value}\n" for key, value in access.java("tideover").items())
        file.write_text("".join(lines), encoding="ascii")
        words += ["--cluster", f"{cluster}={world.bootstrap(cluster)}", "--command-config", f"{cluster}={file}"]
    assert main([*words, "--write", str(made)]) == 0
    settings = load(made).settings
    assert settings.route("east", "west") is not None
    for cluster, found in settings.clusters.items():
        assert found.security.protocol == load(world.config).settings.clusters[cluster].security.protocol


def records_on(world: RunningWorld, cluster: str) -> int:
    """How many records were ever written to the topic on a cluster, by the ends of its partitions."""
    return sum(row["offset"] for row in looked(world, cluster, "orders"))


def looked(world: RunningWorld, cluster: str, topic: str, *, code: int = 0) -> Any:
    """The ends of a topic, as the product sees them, or its error."""
    command = [sys.executable, "-m", "orchestrator", "-c", str(world.config), "offsets", "--cluster", cluster]
    done = subprocess.run([*command, "--topic", topic, "--latest", "-o", "json"], cwd=ROOT, capture_output=True,
                          timeout=120, text=True, check=False)  # fmt: skip
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)
