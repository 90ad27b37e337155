"""A password of PostgreSQL that is changed while the store is in use."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from orchestrator.cli.context import Context
from state.errors import StoreError, StoreUnavailable
from state.store.sql.engine import make_engines
from state.store.sql.migrate import upgrade_store
from tests.contract import samples
from tests.postgres import Postgres

USER, FIRST, SECOND = "keeper", "moat-and-drawbridge", "portcullis-and-keep"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Context]:
    config = tmp_path / "tideover.yaml"
    config.write_text("store: file:url\nclusters: {east: {bootstrap: [localhost:1]}}\n", encoding="utf-8")
    world = Context(config=str(config))
    yield world
    world.close()


@pytest.mark.real
def test_a_changed_password_counts_from_the_next_connection_on(
    postgres: Postgres, world: Context, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    file.write_text(postgres.guard(postgres.new_database().rpartition("/")[2], USER, FIRST), encoding="utf-8")
    upgrade_store(world.store_url)
    world.store.adopt(samples.assignment())
    with psycopg.connect(postgres.url("postgres").replace("+psycopg", ""), autocommit=True) as administrator:
        administrator.execute(f"ALTER ROLE {USER} PASSWORD '{SECOND}'")
        assert world.store.assignments() == [samples.assignment()], "who is connected is not asked again"
        administrator.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{USER}'")
    with pytest.raises(StoreUnavailable, match="password authentication failed"):
        world.store.assignments()
    file.write_text(file.read_text(encoding="utf-8").replace(FIRST, SECOND), encoding="utf-8")
    assert world.store.assignments() == [samples.assignment()]
    file.unlink()
    assert world.store.assignments() == [samples.assignment()], "nobody connects"
    with pytest.raises(StoreUnavailable, match="is not a file"):
        world.store.adopt(samples.assignment())
    file.write_text("nonsense", encoding="utf-8")
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        world.store.adopt(samples.assignment())


@pytest.mark.parametrize("url", ["postgresql://u@h:swordfish/d", "postgresql//u:swordfish@h/d"])
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be read") as refused:
        make_engines(url)
    assert "swordfish" not in "".join(traceback.format_exception(refused.value))
