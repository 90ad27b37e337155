"""A night in which everything goes wrong once: the alerts that no shorter test fires, each by its real fault.

One world of two clusters, MirrorMaker 2, Spark, PostgreSQL and a controller, and a real Prometheus. The rules are ours
but for their patience, as in ``tests/real/test_alert_fires.py``, which fires the other five.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from lab.configuration import changing, declaration
from lab.postgres import Postgres, as_server_user
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage
from state.model.entities import Phase
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store, upgrade_store
from tests.ports import free_base_port
from tests.postgres import running_postgres
from tests.real.test_alert_fires import firing, prometheus
from tests.scene import Driver
from tests.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
QUERY = "archive"
SECONDS = 240.0
"""For what a controller looks at once a minute, or waits for a minute and a half."""
RATE = 300
EVERY = "6s"
"""Without the store /metrics takes 5 seconds, and Prometheus waits no longer than until its next request."""
RARE = {
    "OperationBlocked", "OperationStuck", "ExposureOverBudget", "StaleEpochSeen", "StoreUnreachable", "ConfigError",
    "TrackingBehind",
}  # fmt: skip


class Night:
    """What runs, and what fires."""

    def __init__(self, on: Stage, server: Postgres, url: str, store: ControllerStore) -> None:
        self.on, self.server, self.url, self.store = on, server, url, store
        self.runner = Driver(on.config, "a")
        self.controller = on.start_controller()
        self.prometheus = ""

    @property
    def target(self) -> str:
        return str(self.declared["http"]["listen"])

    @property
    def declared(self) -> Any:
        return declaration(self.on.config)

    @property
    def database(self) -> str:
        return self.url.rpartition("/")[2]

    def fires(self, name: str) -> dict[str, str]:
        """Wait until an alert does; its labels."""
        until(lambda: name in firing(self.prometheus), f"{name} does not fire", seconds=SECONDS)
        return dict(firing(self.prometheus)[name]["labels"])

    def ends(self, name: str) -> None:
        until(lambda: name not in firing(self.prometheus), f"{name} does not end", seconds=SECONDS)

    @contextmanager
    def without_controller(self) -> Iterator[None]:
        self.on.stop(self.controller)
        yield
        self.controller = self.on.start_controller()

    def freeze_runner(self) -> None:
        """Not in a transaction: the locks of its rows would stand still with it."""
        requested = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND xact_start IS NOT NULL AND pid <> %s"
        with self.connection() as connection:
            while True:
                self.runner.freeze()
                own = connection.info.backend_pid
                row = connection.execute(requested, (self.database, own)).fetchone()
                if row == (0,):
                    return
                self.runner.thaw()
                time.sleep(0.02)

    @contextmanager
    def connection(self) -> Iterator["psycopg.Connection[Any]"]:
        with psycopg.connect(
            host="127.0.0.1", port=self.server.port, user="postgres", dbname=self.database, autocommit=True
        ) as connection:  # fmt: skip
            yield connection

    def program(self, name: str, *words: str) -> None:
        as_server_user(
            str(self.server.bin / name), "--host=127.0.0.1", f"--port={self.server.port}", "--username=postgres", *words
        )  # fmt: skip


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        url = server.new_database()
        upgrade_store(url)
        on = stack.enter_context(stage(tmp_path / "night", print))
        open_world(on, Script(base_port=free_base_port()))
        with changing(on.config) as declared:
            declared["queries"] = {QUERY: declared["queries"][QUERY]}
            declared |= {"store": url, "policy": {"max_exposure": "5s"}}
        store = stack.enter_context(closing(open_store(url)))
        made = Night(on, server, url, store)
        stack.callback(made.runner.stop)
        on.start_traffic("east", RATE, 1200)
        await_running(on, made.runner.process, batches=3)
        made.prometheus = stack.enter_context(prometheus(tmp_path / "prometheus", made.target, patience, every=EVERY))
        until(lambda: "NoLeader" not in firing(made.prometheus), "no controller leads")
        yield made


def patience(rules: str) -> str:
    """What would be waited for longer than a test lasts."""
    for long, short in (
        ("timestamp_seconds) > 60", "timestamp_seconds) > 20"),
        ('{phase!="BLOCKED"}) > 1200', '{phase!="BLOCKED"}) > 5'),
        ("_tracked_batch) > 20", "_tracked_batch) > 4"),
    ):
        assert long in rules
        rules = rules.replace(long, short)
    return rules


def test_each_of_seven_real_faults_fires_its_alert_and_no_other(night: Night) -> None:
    assert RARE & firing(night.prometheus).keys() == set()
    for strike in (index_is_built, replicator_hangs, store_hangs, driver_hangs, wrong_cluster):
        strike(night)
        assert RARE & firing(night.prometheus).keys() == set(), strike.__name__
    older_backup(night)


def index_is_built(night: Night) -> None:
    """An index is built on the table of positions: all writers wait."""
    with night.connection() as connection, connection.transaction():
        connection.execute("LOCK TABLE positions IN SHARE MODE")
        assert night.fires("TrackingBehind")["query"] == QUERY
    night.ends("TrackingBehind")


def replicator_hangs(night: Night) -> None:
    night.on.lab("freeze", "replicator")
    assert night.fires("ExposureOverBudget")["query"] == QUERY
    night.on.lab("thaw", "replicator")
    night.ends("ExposureOverBudget")


def store_hangs(night: Night) -> None:
    with night.server.frozen():
        assert night.fires("StoreUnreachable")["severity"] == "critical"
    night.ends("StoreUnreachable")


def driver_hangs(night: Night) -> None:
    """Before a move, so that nothing proves that the old run has stopped; and again right behind its commit."""
    dump = night.server.data.parent / "before.dump"
    night.program("pg_dump", "--format=custom", f"--file={dump}", night.database)
    until(lambda: night.on.query("check", QUERY)[0]["ready"], "it cannot be moved", seconds=SECONDS)
    night.freeze_runner()
    command = ("failover", QUERY, "--to", "west", "--yes", "--reason", "the driver is frozen")
    moving = night.on.start("failover", "orchestrator", "-c", str(night.on.config), *command)
    assert night.fires("OperationBlocked")["query"] == QUERY
    night.runner.thaw()
    until(lambda: phase_of(night) in {Phase.STARTING, Phase.VERIFYING}, "it is not committed", seconds=SECONDS)
    night.freeze_runner()
    assert night.fires("OperationStuck")["query"] == QUERY
    night.runner.thaw()
    assert moving.wait(SECONDS) == 0
    for name in ("OperationBlocked", "OperationStuck"):
        night.ends(name)


def phase_of(night: Night) -> Phase | None:
    found = night.store.operations(query=QUERY, limit=1)
    return found[0].phase if found else None


def wrong_cluster(night: Night) -> None:
    """A name that leads to another cluster, as after a mistake in DNS."""
    right, wrong = night.declared, night.declared
    wrong["clusters"]["west"] = wrong["clusters"]["east"]
    with night.without_controller():
        write(night.on.config, wrong)
    assert night.fires("ConfigError")["cluster"] == "west"
    with night.without_controller():
        write(night.on.config, right)
    night.ends("ConfigError")


def older_backup(night: Night) -> None:
    """The store is restored from before the move; the runner continues under the epoch of after it."""
    dump = night.server.data.parent / "before.dump"
    with night.without_controller(), night.connection() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            (night.database, connection.info.backend_pid),
        )
        night.program("pg_restore", "--clean", "--if-exists", f"--dbname={night.database}", str(dump))
    assert night.fires("StaleEpochSeen")["query"] == QUERY


def write(file: Path, declared: Any) -> None:
    file.write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
