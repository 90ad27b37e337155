"""The stores under contract: the same tests run against each of them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.memory import MemoryStore
from state.ports import Store
from state.sql.migrate import open_store
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
    url = postgres.new_database()
    open_store(url).close()
    return url.rpartition("/")[2]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'store.db'}"
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=real)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        store: Store = MemoryStore(lambda: datetime.now(UTC))
    elif request.param == "sqlite":
        store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    else:
        template = request.getfixturevalue("migrated")
        store = open_store(request.getfixturevalue("postgres").new_database(template))
    yield store
    store.close()
