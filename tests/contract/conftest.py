"""The stores under contract: the same tests run against each of them."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from state.store.controller_store import ControllerStore
from state.store.remote.remote_store import RemoteStore
from state.store.sql.migrate import open_store, upgrade_store
from tests.behind_controller import BehindController, Exchanged, controller, is_about_runners
from tests.memory_store import MemoryStore
from tests.postgres import Postgres, running_postgres

real = pytest.mark.real


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server of our own, for the whole session."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres: Postgres) -> str:
    """Name of a database with the schema in it, to be copied."""
    return postgres.new_store().rpartition("/")[2]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'store.db'}"
    return str(request.getfixturevalue("postgres").new_database())


@pytest.fixture(scope="session")
def made_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the schema in it, to be copied: to make it takes 60 ms, and hundreds of tests want one."""
    path = tmp_path_factory.mktemp("made") / "store.db"
    upgrade_store(f"sqlite:///{path}")
    return path


@pytest.fixture
def made(url: str, request: pytest.FixtureRequest) -> str:
    """A database of each kind with an empty store in it."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        path.parent.mkdir()
        shutil.copy(request.getfixturevalue("made_file"), path)
    else:
        upgrade_store(url)
    return url


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Behind a controller only what a runner calls is another way to the store."""
    idle = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and getattr(item, "callspec", None) is not None
        and item.callspec.params.get("store") == "controller"
        and not is_about_runners(item.function)
    ]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]


@pytest.fixture(scope="session")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Exchanged, RemoteStore]]:
    """A controller's server, whose store each test exchanges."""
    with controller(tmp_path_factory.mktemp("controller")) as served:
        yield served


@pytest.fixture(params=["memory", "sqlite", "controller", pytest.param("postgresql", marks=real)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControllerStore]:
    """An empty store of each kind."""
    if request.param == "memory":
        store: ControllerStore = MemoryStore(lambda: datetime.now(UTC))
    elif request.param == "sqlite":
        copied = shutil.copy(request.getfixturevalue("made_file"), tmp_path / "store.db")
        store = open_store(f"sqlite:///{copied}")
    elif request.param == "controller":
        exchanged, remote = request.getfixturevalue("behind")
        exchanged.now_in_use = MemoryStore(lambda: datetime.now(UTC))
        store = cast("ControllerStore", BehindController(remote, exchanged.now_in_use))
    else:
        template = request.getfixturevalue("migrated")
        store = open_store(request.getfixturevalue("postgres").new_database(template))
    yield store
    store.close()
