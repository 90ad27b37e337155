"""The command line's surroundings: a folder with a configuration, a real SQLite store, and a runner on a thread."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from orchestrator.cli.context import Context as CliWorld
from state.errors import StoreUnavailable
from state.store.sql.migrate import open_store
from streaming.clocks import SystemClock
from tests.simulation.world import World

CONFIG = """
store: sqlite:///t.db
clusters:
  east: {bootstrap: [localhost:1]}
  west: {bootstrap: [localhost:2]}
  south: {bootstrap: [localhost:3]}
routes: [{from: east, to: west}, {from: west, to: east}]
runners: {a: {}, b: {}}
queries:
  revenue:
    pipeline: examples.orders:revenue
    sources: {orders: {topics: [orders]}}
    clusters: [east, west]
    runners: [a, b]
    checkpoint: /cp/revenue
"""
WAIT = 60.0


_IS_SIMULATED = threading.Event()
"""Other tests may run in this process, too."""


@event.listens_for(sa.Pool, "checkout")
def skip_the_disk(connection: object, *_: object) -> None:
    """Nothing here loses power, and a disk that stalls in ``fsync`` would hold a lock past the store's patience."""
    if _IS_SIMULATED.is_set() and isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")


@pytest.fixture(autouse=True)
def unsynced_stores() -> Iterator[None]:
    _IS_SIMULATED.set()
    yield
    _IS_SIMULATED.clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tideover.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEOVER_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    store = open_store(f"sqlite:///{folder}/t.db")
    made = World(store=store)
    made.runner.clock = made.other.clock = Now()  # type: ignore[assignment] # only gives the time
    monkeypatch.setattr(CliWorld, "log", lambda self, name: made.clusters[name])
    with living(made):
        yield made
    store.close()


@contextlib.contextmanager
def living(world: World) -> Iterator[None]:
    """Its runner works on a thread."""
    stop = threading.Event()

    def live() -> None:
        while not stop.wait(0.02):
            with contextlib.suppress(StoreUnavailable):  # a real one queries again, too
                world.runner.live()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT)


class Now(SystemClock):
    """The time of day, for a world whose store has it, too."""

    passed = 0.0
