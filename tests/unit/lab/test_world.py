"""A world's file, its ports and its configuration; traffic's shape; the ledger of what was acknowledged."""

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lab import cluster, configuration, ledger, mirror, processes
from lab.errors import NoWorld, Refused
from lab.load_profile import Shape, due, orders, timestamp_ms
from lab.processes import Process
from lab.world import PORTS, Options, World
from state.settings.keys import Resume, Tideover

SHAPE = Shape(rate=1000, seconds=4, partitions=4, first_id=50)


def test_a_world_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options(brokers=3, base_port=20000))
    world.started = {"east-1": Process(pid=7, started="boot:9"), "west-1": None}
    world.enter("up")
    assert World.load(tmp_path) == world


def test_an_empty_directory_holds_no_world(tmp_path: Path) -> None:
    with pytest.raises(NoWorld):
        World.load(tmp_path)


@pytest.mark.parametrize("brokers", [1, 3])
def test_all_ports_of_a_world_are_different_and_within_its_range(tmp_path: Path, brokers: int) -> None:
    world = World(directory=tmp_path, options=Options(brokers=brokers, base_port=20000))
    each = [broker for name in ("east", "west") for broker in world.brokers(name)]
    ports = [port for broker in each for port in (broker.port, broker.controller_port)] + [world.http_port]
    assert len(set(ports)) == len(ports)
    assert all(20000 <= port < 20000 + PORTS for port in ports)


def test_a_name_stands_for_a_cluster_a_broker_or_the_replicator(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options(brokers=3))
    assert world.parts("west") == ["west-1", "west-2", "west-3"]
    assert world.parts("west-2") == ["west-2"]
    assert world.parts("replicator") == ["replicator"]
    with pytest.raises(Refused, match="this world has no part called north"):
        world.parts("north")


def test_options_that_make_no_sense_are_refused() -> None:
    for wrong in ({"brokers": 2}, {"kafka": "1.0"}, {"base_port": 80}, {"partitions": 0}, {"secured": "scram,tls"}):
        with pytest.raises(Refused):
            Options(**wrong)


def test_three_brokers_keep_three_replicas_and_write_to_a_majority(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options(brokers=3))
    settings = cluster.properties(world, world.broker("east-2"))
    assert (settings["default.replication.factor"], settings["min.insync.replicas"]) == (3, 2)
    assert str(settings["controller.quorum.voters"]).count("@") == 3
    assert mirror.properties(world)["replication.factor"] == 3


def test_the_clusters_of_a_world_may_be_secured_in_different_ways(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options(secured="scram,mtls"))
    for name in ("east", "west"):
        access = world.access_to(name)
        assert access is not None
        access.make()
    brokers = {
        each.cluster: cluster.properties(world, each) for each in (*world.brokers("east"), *world.brokers("west"))
    }
    assert str(brokers["east"]["listeners"]).startswith("SASL_SSL://")
    assert str(brokers["west"]["listeners"]).startswith("SSL://")
    assert brokers["west"]["ssl.client.auth"] == "required"
    told = mirror.properties(world)
    assert (told["east.security.protocol"], told["west.security.protocol"]) == ("SASL_SSL", "SSL")
    assert told["west.ssl.keystore.location"] == tmp_path / "secrets" / "west" / "replicator.both"
    configuration.write(world)
    settings = Tideover.model_validate(yaml.safe_load(world.configuration.read_text(encoding="utf-8")))
    assert {name: each.security.sasl is None for name, each in settings.clusters.items()} == {
        "east": False,
        "west": True,
    }


def test_the_written_configuration_is_what_the_product_accepts(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options())
    configuration.write(world)
    settings = Tideover.model_validate(yaml.safe_load(world.configuration.read_text(encoding="utf-8")))
    assert set(settings.queries) == {"revenue", "orders", "archive", "latest"}
    assert settings.queries["latest"].resume is Resume.FRESH
    assert settings.routes[0].heartbeats == "east.heartbeats"


def test_a_process_is_known_by_pid_and_start_and_no_stranger_is_signalled() -> None:
    own = processes.identify(os.getpid())
    assert own is not None
    assert processes.look(own) == "running"
    stranger = replace(own, started=own.started + "1")
    assert processes.look(stranger) == "gone"
    assert not processes.send(stranger, signal.SIGCONT)


def test_a_process_whose_pid_was_not_written_down_is_found_by_its_marker(tmp_path: Path) -> None:
    world = World(directory=tmp_path, options=Options())
    child = subprocess.Popen([sys.executable, "-c", "input()", world.marker("east-1")], stdin=subprocess.PIPE)
    try:
        while not processes.find(world.marker("east-1")):  # between fork and exec it has another command line
            assert child.poll() is None
        world.started["east-1"] = None
        world.adopt()
        found = world.started["east-1"]
        assert found is not None
        assert found.pid == child.pid
    finally:
        child.kill()
        child.communicate()


def test_orders_have_ids_that_count_up_and_keys_that_stay_in_their_partition() -> None:
    sent = list(orders(SHAPE))
    assert [order.id for order in sent] == list(range(50, 4050))
    homes = {(order.customer, order.partition) for order in sent}
    assert len(homes) == len({customer for customer, _ in homes})
    assert sent == list(orders(SHAPE))
    assert sent != list(orders(replace(SHAPE, seed=1)))


def test_uneven_load_halves_per_partition_and_idle_ones_get_nothing() -> None:
    load = Counter(order.partition for order in orders(replace(SHAPE, uneven=True, idle=1)))
    assert set(load) == {0, 1, 2}
    assert load[0] > 1.5 * load[1] > 2 * load[2]


def test_payloads_differ_by_their_id_alone_on_request() -> None:
    few = orders(replace(SHAPE, seconds=0.1, same_payload=True))
    assert len({order.value(0).replace(f'"id": {order.id}'.encode(), b"") for order in few}) == 1


def test_a_burst_shares_one_timestamp_and_comes_at_once() -> None:
    burst = replace(SHAPE, burst=True)
    assert [due(burst, seconds) for seconds in (0.49, 0.5, 0.99, 1.0, 60.0)] == [0, 500, 500, 1000, 4000]
    assert timestamp_ms(burst, 1_700_000_000_499) == timestamp_ms(burst, 1_700_000_000_000)
    assert due(SHAPE, 0.25) == 250


def test_traffic_that_could_go_nowhere_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="idle"):
        replace(SHAPE, idle=4)


def test_the_ledger_returns_its_notes_by_run_without_a_half_line(tmp_path: Path) -> None:
    for _ in range(2):
        run = ledger.take_run(tmp_path)
        with ledger.Ledger(tmp_path, "orders", run, "east") as noted:
            noted.note(ledger.Sent(run, 0, 7, 99))
    with (tmp_path / "orders.2.east.ids").open("a") as file:
        file.write("3 0 8")
    for topic, run, place in (("orders.eu", 3, "east"), ("orders", 10, "east"), ("orders", 4, "west")):
        with ledger.Ledger(tmp_path, topic, run, place) as other:
            other.note(ledger.Sent(run, 0, ledger.UNKNOWN_OFFSET, 99))
    assert [each.id for each in ledger.read(tmp_path, "orders", "east")] == [1, 2, 10]
    assert [each.id for each in ledger.read(tmp_path, "orders", "west")] == [4]
    assert [each.acknowledged for each in ledger.read(tmp_path, "orders.eu", "east")] == [False]
    assert ledger.topics(tmp_path, "east") == {"orders", "orders.eu"}
    assert ledger.topics(tmp_path, "west") == {"orders"}
