"""The lab on real parts: a world comes up, suffers, is verified, and leaves nothing behind."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from lab import faults, processes, topics
from lab.errors import ClusterSilent
from lab.world import World
from tests.background import deaf
from tests.jars import connector_jars
from tests.ports import free_base_port
from tests.waiting import PROCESS_SECONDS, until
from tests.world import ROOT, RunningWorld, run_lab, running_world

pytestmark = [pytest.mark.real, pytest.mark.shared]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    with running_world(tmp_path_factory.mktemp("lab")) as up:
        yield up


def test_up_again_changes_nothing_and_other_options_are_refused(world: RunningWorld) -> None:
    before = world.status()
    options = before["options"]
    world.lab("up", "--base-port", str(options["base_port"]))
    assert world.status() == before
    world.lab("up", "--base-port", str(options["base_port"]), "--partitions", "7", exit_code=1)
    assert world.status() == before


def test_traffic_outlives_a_kill_and_a_freeze_and_notes_acknowledgements(world: RunningWorld) -> None:
    traffic = world.start_traffic(rate=300)
    await_acked(world, more_than=count_acked(world))
    world.lab("freeze", "east")
    assert world.states()["east-1"] == "frozen"
    with pytest.raises(ClusterSilent):
        topics.ends([world.bootstrap("east")], "orders", timeout=1.0)
    world.lab("thaw", "east")
    await_acked(world, more_than=count_acked(world))
    here = World.load(world.directory)
    faults.kill(here, "east", print)
    assert here.look("east-1") == "gone", "who starts it next would find it running"
    world.lab("freeze", "east", exit_code=1)
    traffic.send_signal(signal.SIGTERM)
    assert traffic.wait(PROCESS_SECONDS) == 0
    acked = count_acked(world)
    world.lab("start", "east")
    on_east = sum(topics.ends([world.bootstrap("east")], "orders").values())
    assert on_east >= acked, "what was acknowledged survives the kill"


def test_traffic_to_a_new_topic_makes_it_on_both_clusters(world: RunningWorld) -> None:
    world.traffic("--topic", "returns", "--same-payload", rate=100, seconds=1)
    on_west = [world.bootstrap("west")]
    foreign = 4 * 37 + 13 * (1 + 2 + 3)
    until(lambda: sum(topics.ends(on_west, "returns").values()) == foreign + 100)


def test_a_world_of_which_everything_was_killed_comes_up_again_with_its_data(world: RunningWorld) -> None:
    held = sum(topics.ends([world.bootstrap("west")], "orders").values())
    for pid in world.pids():
        os.kill(pid, signal.SIGKILL)
    until(lambda: set(world.states().values()) == {"gone"})
    world.lab("up", "--base-port", str(world.status()["options"]["base_port"]))
    assert set(world.states().values()) == {"running"}
    assert sum(topics.ends([world.bootstrap("west")], "orders").values()) >= held


@pytest.mark.long
def test_a_second_world_beside_the_first_is_exact_and_leaves_no_process(world: RunningWorld, tmp_path: Path) -> None:
    """All that needs a world to which nothing has happened yet."""
    before = world.pids()
    with running_world(tmp_path) as other:
        own = other.pids()
        assert not set(own) & set(before)
        assert_apart(other)
        assert_verified(other)
        # As if `up` had been killed before it could write down a pid, or that it was done.
        forgotten = json.loads((other.directory / "world.json").read_text())
        forgotten |= {"phase": "rising", "started": dict.fromkeys(forgotten["started"])}
        (other.directory / "world.json").write_text(json.dumps(forgotten))
        other.lab("down")
        assert [processes.identify(pid) for pid in own] == [None] * len(own)
    assert world.pids() == before


def assert_apart(world: RunningWorld) -> None:
    """The offsets of the two clusters differ in every partition, and heartbeats arrive."""
    east, west = ([world.bootstrap(name)] for name in ("east", "west"))
    on_east, on_west = (topics.ends(cluster, "orders") for cluster in (east, west))
    shifts = [on_west[partition] - on_east[partition] for partition in on_east]
    assert len(set(shifts)) == 4
    assert min(shifts) > 0
    await_records(west, "east.heartbeats")  # east's own, as replicated
    await_records(west, "mm2-offset-syncs.east.internal")


def await_records(cluster: list[str], topic: str) -> None:
    """The replicator begins each of its tasks in its own time."""
    until(lambda: sum(topics.ends(cluster, topic).values()), f"no record of {topic}")


def assert_verified(world: RunningWorld) -> None:
    """The example queries are verified exactly, and a tampered sink is found out."""
    west = [world.bootstrap("west")]
    before = sum(topics.ends(west, "orders").values())
    sent = world.traffic("--uneven", "--burst", rate=600, seconds=4)
    assert sent["acked"] == sent["sent"] == 2400
    until(lambda: sum(topics.ends(west, "orders").values()) == before + 2400)
    world.lab("verify", "-o", "json", exit_code=2)  # nothing is delivered yet, so there is no sink to judge
    run_queries(world, "west")
    for query, row in world.verdict().items():
        reported = {name: row[name] for name in ("replicated", "delivered", "lost", "duplicated", "exposed")}
        assert reported == {
            "replicated": row["acked"], "delivered": row["acked"], "lost": 0, "duplicated": 0, "exposed": 0,
        }, query  # fmt: skip
    sinks = world.directory / "sinks"
    first = "(start_ms, partition) = (SELECT start_ms, partition FROM windows ORDER BY orders DESC LIMIT 1)"
    count = read(sinks / "revenue.db", f"SELECT orders FROM windows WHERE {first}")
    change(sinks / "revenue.db", f"DELETE FROM windows WHERE {first}")
    change(sinks / "orders.db", f"UPDATE windows SET hash_low = hash_low + 1 WHERE {first}")
    change(sinks / "latest.db", "UPDATE orders SET deliveries = 3 WHERE id = (SELECT min(id) FROM orders)")
    change(sinks / "latest.db", "DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)")
    found = {query: (row["lost"], row["duplicated"]) for query, row in world.verdict(wait=0).items()}
    assert found["archive"] == (0, 0)
    assert found["revenue"] == (count, 0), "a window of one partition is missing"
    assert found["orders"] == (1, 1), "a loss and a repeat that cancel out in the count"
    assert found["latest"] == (1, 2)


def test_a_taken_port_is_named_and_nothing_is_started(world: RunningWorld, tmp_path: Path) -> None:
    base = world.status()["options"]["base_port"]
    done = subprocess.run(
        [sys.executable, "-m", "lab", "up", "--dir", str(tmp_path / "second"), "--base-port", str(base)],
        check=False, capture_output=True, text=True, timeout=300, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"error: another process uses port {base}, {base + 1}, " in done.stderr
    assert "--base-port" in done.stderr
    assert "Exception" not in done.stderr
    reported = run_lab(tmp_path / "second", "status")
    assert "running" not in reported


def test_a_demo_that_is_ended_leaves_no_broker(tmp_path: Path) -> None:
    """By SIGTERM while its world comes up, and started in the background of a shell, which is deaf to SIGINT."""
    words = ["-m", "lab.demo", "--dir", str(tmp_path / "demo"), "--base-port", str(free_base_port())]
    demo = subprocess.Popen(deaf(sys.executable, *words), cwd=ROOT, stdout=subprocess.DEVNULL)
    directory = tmp_path / "demo" / "world"
    try:
        until(lambda: "running" in run_lab(directory, "status", exit_code=None))
        demo.terminate()
        assert demo.wait(PROCESS_SECONDS) == 2
        assert "running" not in run_lab(directory, "status")
    finally:
        demo.kill()
        run_lab(directory, "down", "--now", exit_code=None)


@pytest.mark.long
def test_three_brokers_survive_the_loss_of_one(tmp_path: Path) -> None:
    with running_world(tmp_path, brokers=3) as world:
        world.lab("kill", "east-2")
        sent = world.traffic(rate=200, seconds=20)
        assert sent["acked"] == sent["sent"]
        world.lab("start", "east-2")
        assert set(world.states().values()) == {"running"}


@pytest.mark.long
def test_the_older_kafka_replicates_as_well(tmp_path: Path) -> None:
    with running_world(tmp_path, kafka="3.9.1") as world:
        sent = world.traffic(rate=200, seconds=2)
        assert sent["acked"] == 400
        row = world.verdict(wait=0)["latest"]
        assert row["replicated"] + row["exposed"] == 400


def run_queries(world: RunningWorld, cluster: str) -> None:
    """Run every query of the configuration once over all that a cluster holds."""
    from pyspark.sql import SparkSession

    configured = yaml.safe_load(world.config.read_text())
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.jars", connector_jars())
        .getOrCreate()
    )
    try:
        for query in configured["queries"].values():
            module, function = query["pipeline"].split(":")
            orders = (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", world.bootstrap(cluster))
                .option("subscribe", "orders")
                .option("startingOffsets", "earliest")
                .load()
            )
            writer = getattr(import_module(module), function)({"orders": orders}, query["settings"])
            run = writer.option("checkpointLocation", query["checkpoint"]).trigger(availableNow=True).start()
            assert run.awaitTermination(240)
    finally:
        spark.stop()


def change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


def read(database: Path, query: str) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute(query).fetchone()[0])


def count_acked(world: RunningWorld) -> int:
    lines = [line for file in world.directory.glob("acked/orders.*.ids") for line in file.read_text().splitlines()]
    return sum(1 for line in lines if " -1 " not in line)


def await_acked(world: RunningWorld, *, more_than: int) -> None:
    until(lambda: count_acked(world) > more_than)
