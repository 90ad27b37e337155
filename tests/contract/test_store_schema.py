"""The schema: its versions, the rules that the tables themselves keep, and a store that is out of reach."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from state.errors import Conflict, StoreError, StoreUnavailable
from state.model.entities import Phase
from state.store.sql import positions
from state.store.sql.engine import PATIENCE, make_engines, translated
from state.store.sql.migrate import open_store, upgrade_store
from state.store.sql.schema import VERSION_TABLE, metadata
from state.store.sql.store import SqlStore
from tests.contract import samples
from tests.contract.samples import AT, TTL, held
from tests.postgres import Postgres

SHORT = timedelta(milliseconds=300)


@pytest.fixture
def opened(made: str) -> Iterator[SqlStore]:
    store = open_store(made)
    assert isinstance(store, SqlStore)
    yield store
    store.close()


def test_the_tables_are_those_that_the_program_knows(opened: SqlStore) -> None:
    with opened._engines.write.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_the_ring_of_a_position_lies_behind_its_other_columns(opened: SqlStore) -> None:
    with opened._engines.write.connect() as connection:
        columns = [column["name"] for column in sa.inspect(connection).get_columns("positions")]
    assert columns[-1] == "ring", "SQLite would read what lies behind it through it"


def test_a_store_is_found_again_as_it_was_left(made: str) -> None:
    store = open_store(made)
    store.adopt(samples.assignment())
    store.close()
    again = open_store(made)
    assert again.assignments() == [samples.assignment()]
    again.close()


BROKEN_RULES = {
    "an epoch goes back": "UPDATE assignments SET epoch = 1",
    "an epoch jumps": "UPDATE assignments SET epoch = 4",
    "a query is placed by an epoch to come": "UPDATE assignments SET placed_epoch = 3",
    "a query is placed by no epoch": "UPDATE assignments SET placed_epoch = 0",
    "an assignment goes": "DELETE FROM assignments",
    "a second assignment of a query": "INSERT INTO assignments SELECT * FROM assignments",
    "an assignment asks for the unknown": "UPDATE assignments SET desired = 'paused'",
    "a term goes back": "UPDATE leases SET term = 0",
    "a holder changes within a term": "UPDATE leases SET holder = 'two'",
    "a lease goes": "DELETE FROM leases",
    "history is changed": "UPDATE history SET text = 'never happened'",
    "history that is kept is deleted": "DELETE FROM history",
    "what is kept begins earlier": "UPDATE retention SET kept_from = '2026-01-01T00:00:00.000000+00:00'",
    "an open operation goes": "DELETE FROM operations WHERE id = 'op-2'",
    "a phase that nobody knows": "UPDATE operations SET phase = 'LATER'",
    "an outcome that nobody knows": "UPDATE operations SET outcome = 'perhaps' WHERE id = 'op-1'",
    "a closed operation is opened": "UPDATE operations SET outcome = NULL WHERE id = 'op-0'",
    "a closed operation ends differently": "UPDATE operations SET outcome = 'failed' WHERE id = 'op-0'",
    "a second open operation": "UPDATE operations SET query = 'revenue' WHERE id = 'op-2'",
    "an intent is asked twice": "UPDATE intents SET name = 'fence' WHERE id = 'intent-2'",
    "an answer is taken back": "UPDATE intents SET state = 'pending' WHERE id = 'intent-3'",
    "an answer is changed": "UPDATE intents SET state = 'failed' WHERE id = 'intent-3'",
    "a step without an operation": "UPDATE steps SET operation = 'op-9'",
    "a fact of an old epoch": "UPDATE query_facts SET epoch = 0",
    "a layer that nobody knows": "UPDATE probe_reports SET layer = 'http'",
    "a verdict that nobody knows": "UPDATE cluster_status SET verdict = 'ILL'",
    "a verdict of an old term": "UPDATE cluster_status SET term = 0",
    "evidence is changed": "UPDATE evidence SET document = '{}'",
    "evidence gets another hash": "UPDATE evidence SET sha256 = 'x', document = NULL",
    "evidence goes": "DELETE FROM evidence",
    "evidence of an operation a second time": "INSERT INTO evidence SELECT sequence + 1, operation, query, sha256,"
    " sha256, written_at, document FROM evidence",
}


@pytest.fixture
def filled(opened: SqlStore) -> SqlStore:
    term = held(opened)
    opened.record(samples.operation(id="op-0", query="old", outcome="done", phase=Phase.SETTLED), term=term)
    opened.record(samples.operation(id="op-2", query="late"), term=term)
    intent = [samples.intent(id=f"intent-{n}", name=name) for n, name in enumerate(("fence", "inspect", "prepare"), 1)]
    opened.record(samples.operation(), term=term, intents=intent)
    opened.report(samples.intent(id="intent-3", state="done", result={}, ended_at=AT))
    opened.report_query(samples.fact())
    opened.save_probe_reports([samples.probe_report()])
    opened.record_status(samples.status(term=term), term=term, event=samples.event())
    closed = samples.operation(id="op-0", query="old", outcome="done", phase=Phase.SETTLED)
    assert opened.keep_evidence(closed, {}, term=term, actor="ann") is not None
    opened.prune(AT, keep=1, limit=1, term=term)
    return opened


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_the_tables_refuse(filled: SqlStore, rule: str) -> None:
    with pytest.raises(Conflict), translated(), filled._engines.write.begin() as connection:
        connection.execute(sa.text(BROKEN_RULES[rule]))


def test_no_line_of_history_goes_before_anything_was_said_of_what_is_kept(opened: SqlStore) -> None:
    opened.note(samples.event())
    with pytest.raises(Conflict, match="append-only"), translated(), opened._engines.write.begin() as connection:
        connection.execute(sa.text("DELETE FROM history"))
    assert len(opened.history()) == 1


@pytest.mark.real
def test_history_is_not_truncated(postgres: Postgres) -> None:
    store = open_store(postgres.new_store())
    assert isinstance(store, SqlStore)
    with pytest.raises(Conflict, match="append-only"), translated(), store._engines.write.begin() as connection:
        connection.execute(sa.text("TRUNCATE history"))
    store.close()


def test_a_locked_store_is_unavailable_in_bounded_time(made: str) -> None:
    store = open_store(made, SHORT)
    store.lead("controller", "one", TTL)
    engines = make_engines(made)
    with engines.write.begin() as connection:
        connection.execute(sa.text("UPDATE leases SET term = term + 1"))
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.lead("controller", "one", TTL)
        assert time.monotonic() - began < PATIENCE.total_seconds(), "sooner than by default"
    assert store.lead("controller", "one", TTL) is not None
    store.close()
    engines.dispose()


def test_a_batch_of_positions_is_stored_whole_or_not_at_all(opened: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    write = positions.upsert

    def fail_the_second(connection: sa.Connection, table: sa.Table, rows: list[tuple[object, ...]], *more: Any) -> None:
        if written:
            raise sa.exc.OperationalError("INSERT", {}, Exception("the server went away"))
        written.append(len(rows))
        write(connection, table, rows, *more)

    monkeypatch.setattr(positions, "CHUNK_ROWS", 2)
    monkeypatch.setattr(positions, "upsert", fail_the_second)
    with pytest.raises(StoreUnavailable):
        opened.save_positions([samples.position(partition=number) for number in range(3)])
    assert (written, opened.positions("revenue")) == ([2], [])


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite://", "sqlite:///:memory:", "nonsense"])
def test_a_url_that_cannot_be_a_store_is_refused(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(url)
    assert refused.value.hint


def test_a_folder_of_the_store_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="folder"):
        open_store(f"sqlite:///{tmp_path / 'file' / 'store.db'}")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("this is not a database" * 100)
    with pytest.raises(StoreError, match="not a database"):
        open_store(f"sqlite:///{tmp_path / 'store.db'}")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        open_store("postgresql://postgres@127.0.0.1:1/tideover", SHORT)


@pytest.mark.parametrize(
    "cause",
    [
        psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"),
        psycopg.errors.IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction timeout"),
    ],
)
def test_a_server_in_its_own_failover_is_unavailable(cause: psycopg.Error) -> None:
    wrapped = sa.exc.DBAPIError.instance("UPDATE leases", {}, cause, psycopg.Error)
    with pytest.raises(StoreUnavailable, match=str(cause)), translated():
        raise wrapped


def test_a_lost_connection_is_unavailable_whatever_the_driver_calls_it() -> None:
    with pytest.raises(StoreUnavailable), translated():
        raise sa.exc.ProgrammingError("SELECT 1", {}, psycopg.ProgrammingError("closed"), connection_invalidated=True)


@pytest.mark.real
def test_a_server_that_was_demoted_is_left_for_the_primary(postgres: Postgres) -> None:
    url = postgres.new_store()
    name = url.rpartition("/")[2]
    engines = make_engines(url)
    with engines.write.begin() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    store = open_store(url)
    with pytest.raises(StoreUnavailable, match="read-only"):
        store.lead("controller", "one", TTL)
    with engines.write.begin() as connection:
        connection.execute(sa.text(f"ALTER DATABASE {name} RESET default_transaction_read_only"))
    assert store.lead("controller", "one", TTL) is not None, "on a new connection"
    store.close()
    engines.dispose()


@pytest.mark.real
def test_a_restarted_server_is_met_by_the_next_call(postgres: Postgres) -> None:
    store = open_store(postgres.new_store())
    term = held(store)
    store.assignments()
    postgres.stop()
    with pytest.raises(StoreUnavailable):
        store.assignments()
    with pytest.raises(StoreUnavailable):
        store.lead("controller", "one", TTL)
    postgres.start()
    assert [assignment.epoch for assignment in store.assignments()] == [2]
    store.record(samples.operation(phase=Phase.RESOLVING), term=term)
    postgres.stop()
    postgres.start()
    assert store.lead("controller", "one", TTL) is not None
    assert store.pending_intents("a") == []
    store.close()


@pytest.mark.real
def test_a_database_without_an_encoding_keeps_every_character(postgres: Postgres) -> None:
    url = postgres.new_database("template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    upgrade_store(url)
    store = open_store(url)
    store.note(samples.event(operation=None, query=None, text="ausgefallen: Köln → 東京"))
    assert [event.text for event in store.history()] == ["ausgefallen: Köln → 東京"]
    store.close()
