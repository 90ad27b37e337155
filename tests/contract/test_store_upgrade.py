"""The schema is made or upgraded by ``upgrade_store`` alone, and a program works with no other schema than its own."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from state.errors import Conflict, SchemaNewer, SchemaOlder, StaleTerm, StoreError, StoreUnavailable
from state.store.sql import migrate, schema
from state.store.sql.database import values_of
from state.store.sql.engine import Engines, make_engines
from state.store.sql.migrate import building, copy_store, open_store, schema_of, upgrade_store
from state.store.sql.schema import VERSION_TABLE
from state.store.sql.store import HEAD
from state.store.write_checks import CONTROLLER
from tests.contract import samples
from tests.contract.samples import AT, TTL, held
from tests.contract.test_store_races import outputs, racer
from tests.next_schema import NEXT, STEP, use_next_schema
from tests.postgres import Postgres

SHORT = timedelta(milliseconds=300)
FIRST = HEAD


@pytest.fixture
def engines(url: str) -> Iterator[Engines]:
    made = make_engines(url)
    yield made
    made.dispose()


@pytest.fixture
def old(url: str, engines: Engines, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of the first version, with a query that an earlier leader moved; the program is of the next one."""
    upgrade_store(url)
    store = open_store(url)
    store.adopt(samples.assignment())
    samples.term_of(store)
    store.close()
    with engines.write.begin() as connection:
        connection.execute(sa.insert(schema.operations), [values_of(samples.operation(outcome="done", ended_at=AT))])
    use_next_schema(monkeypatch)
    return url


def set_version(engines: Engines, version: str) -> None:
    with engines.write.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'"))


def tables(engines: Engines) -> list[str]:
    with engines.write.connect() as connection:
        return sa.inspect(connection).get_table_names()


def test_the_program_writes_the_newest_version() -> None:
    assert ScriptDirectory.from_config(migrate._config()).get_current_head() == HEAD


def test_opening_makes_a_new_store_in_a_file_only(url: str, engines: Engines) -> None:
    if engines.dialect == "sqlite":
        open_store(url).close()
        assert schema_of(url).is_current
        return
    with pytest.raises(SchemaOlder, match="holds no store of Tideover yet") as refused:
        open_store(url)
    assert refused.value.hint.endswith("tideover store upgrade")
    assert tables(engines) == []


def test_opening_makes_no_store_beside_the_tables_of_others(url: str, engines: Engines) -> None:
    with engines.write.begin() as connection:
        connection.execute(sa.text("CREATE TABLE wages (cents integer)"))
    with pytest.raises(SchemaOlder, match="holds no store"):
        open_store(url)
    assert tables(engines) == ["wages"]
    assert upgrade_store(url).found is None
    open_store(url).close()


def test_a_newer_schema_is_refused_by_every_program(old: str, engines: Engines) -> None:
    set_version(engines, "9999")
    for work in (open_store, upgrade_store, schema_of):
        with pytest.raises(SchemaNewer, match="9999") as refused:
            work(old)
        assert "newer version of Tideover" in refused.value.hint


def test_an_older_schema_is_refused_and_left_as_it_is(old: str, engines: Engines) -> None:
    with pytest.raises(SchemaOlder, match=f"has schema 0001, and this version of Tideover needs {NEXT}") as refused:
        open_store(old)
    assert refused.value.hint.endswith("tideover store upgrade")
    schema = schema_of(old)
    assert (schema.found, schema.known, schema.is_current) == (FIRST, NEXT, False)
    assert schema.steps == (STEP,)


def test_an_upgrade_keeps_every_row(old: str, engines: Engines) -> None:
    assert upgrade_store(old).found == FIRST
    store = open_store(old)
    assert store.assignments() == [samples.assignment()]
    assert store.operation("op-1") == samples.operation(outcome="done", ended_at=AT)
    store.close()
    with engines.write.connect() as connection:
        assert connection.execute(sa.text("SELECT ticket FROM operations")).scalars().all() == ["none"]
    again = upgrade_store(old)
    assert (again.is_current, again.steps) == (True, ())


def test_a_rehearsal_does_everything_and_keeps_nothing(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert upgrade_store(old, rehearse=True).steps == (STEP,)
    assert schema_of(old).found == FIRST

    def fail(*_: object) -> None:
        raise sa.exc.OperationalError("CREATE", {}, Exception("disk full"))

    monkeypatch.setattr(command, "upgrade", fail)
    with pytest.raises(StoreUnavailable, match="disk full"):
        upgrade_store(old, rehearse=True)


def test_a_rehearsal_makes_no_store(url: str, engines: Engines) -> None:
    assert len(upgrade_store(url, rehearse=True).steps) == int(HEAD)
    assert tables(engines) == []


def test_no_operation_is_open_during_an_upgrade(old: str, engines: Engines) -> None:
    with engines.write.begin() as connection:
        connection.execute(sa.insert(schema.operations), [values_of(samples.operation(id="op-2"))])
    with pytest.raises(Conflict, match="these are open: op-2 of revenue"):
        upgrade_store(old)
    assert schema_of(old).found == FIRST


def test_a_schema_that_cannot_be_made_rolls_back_as_a_whole(url: str, engines: Engines) -> None:
    with engines.write.begin() as connection:
        connection.execute(sa.text("CREATE TABLE history (sequence integer)"))
    with pytest.raises(StoreError):
        upgrade_store(url)
    assert tables(engines) == ["history"]


def test_processes_that_make_a_store_at_once_make_it_once(url: str, engines: Engines) -> None:
    outputs([racer("make", url) for _ in range(4)])
    store = open_store(url)
    assert len(store.history()) == 4
    store.close()


def test_only_one_process_at_a_time_builds_the_schema(url: str, engines: Engines) -> None:
    with building(engines), pytest.raises(StoreUnavailable):
        upgrade_store(url, patience=SHORT)
    upgrade_store(url)
    open_store(url).close()


def test_an_old_leader_decides_nothing_more_after_an_upgrade(made: str, engines: Engines) -> None:
    store = open_store(made)
    term = held(store)
    holder = "one"
    assert store.leader(CONTROLLER) is not None
    with engines.write.begin() as connection:  # as the next version would, whose number this one does not know
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        connection.execute(sa.text("UPDATE leases SET holder = 'upgrade', term = term + 1"))
    with pytest.raises(StaleTerm):
        store.record(samples.operation(), term=term)
    for seize in (False, True):
        with pytest.raises(SchemaNewer, match="9999"):
            store.seize(CONTROLLER, holder, "upgrade", TTL) if seize else store.lead("other", holder, TTL)
    lease = store.leader(CONTROLLER)
    assert lease is not None
    assert lease.holder == "upgrade"
    assert store.leader("other") is None
    store.close()


def test_an_upgrade_takes_the_lease_and_gives_it_up(old: str) -> None:
    upgrade_store(old)
    store = open_store(old)
    lease = store.leader(CONTROLLER)
    assert lease is not None
    assert lease.holder == "tideover store upgrade"
    assert store.lead(CONTROLLER, "new", TTL) is not None
    store.close()


def test_a_file_is_copied_whole_before_an_upgrade(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    store.adopt(samples.assignment())  # in the write-ahead log still
    for _ in range(2):
        copy = copy_store(url, HEAD)
        assert copy == tmp_path / f"store.db.schema-{HEAD}"
    store.close()
    found = open_store(f"sqlite:///{copy}")
    assert found.assignments() == [samples.assignment()]
    found.close()
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.real
def test_a_server_is_not_copied_here(postgres: Postgres) -> None:
    assert copy_store(postgres.new_database(), HEAD) is None


@pytest.mark.real
def test_a_user_without_the_right_to_build_the_schema_gets_a_sentence(postgres: Postgres) -> None:
    url = postgres.new_database()
    engines = make_engines(url)
    with engines.write.begin() as connection:
        connection.execute(sa.text("CREATE ROLE reader LOGIN"))
    with pytest.raises(SchemaOlder, match="may not upgrade it") as refused:
        upgrade_store(url.replace("postgres@", "reader@"))
    assert "create tables" in refused.value.hint
    engines.dispose()
