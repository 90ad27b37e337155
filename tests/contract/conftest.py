"""The stores under contract: the same tests run against each of them."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store, upgrade_store
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


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=real)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControllerStore]:
    """An empty store of each kind."""
    if request.param == "memory":
        store: ControllerStore = MemoryStore(lambda: datetime.now(UTC))
    elif request.param == "sqlite":
        copied = shutil.copy(request.getfixturevalue("made_file"), tmp_path / "store.db")
        store = open_store(f"sqlite:///{copied}")
    else:
        template = request.getfixturevalue("migrated")
        store = open_store(request.getfixturevalue("postgres").new_database(template))
    yield store
    store.close()
