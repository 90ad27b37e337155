"""A PostgreSQL that is frozen: its kernel acknowledges everything, and no one answers."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from state.errors import StoreUnavailable
from state.model.entities import Phase
from state.store.sql.migrate import open_store
from state.store.sql.store import SqlStore
from tests.contract import samples
from tests.contract.samples import held, term_of
from tests.postgres import Postgres

PATIENCE = timedelta(milliseconds=300)
LIMIT = 2 * PATIENCE.total_seconds() + 1
"""Seconds that a call may take on a connection that is open."""
CONNECTING = 2
"""Seconds that a connection may take to be made, the least that libpq knows."""
SLACK = 20
"""What a busy machine may take beside."""


CUT_OFF_BETWEEN = ("before_cursor_execute", "INSERT INTO intents", {(0, 0)})
CUT_OFF_AT_THE_END = ("commit", "", {(0, 0), (1, 1)})
"""Moment, first statement, and how many operations and intents may stand afterwards."""


@pytest.fixture
def store(postgres: Postgres, migrated: str) -> Iterator[SqlStore]:
    store = open_store(postgres.new_database(migrated), PATIENCE)
    assert isinstance(store, SqlStore)
    yield store
    store.close()


@contextmanager
def unavailable_within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        yield
    assert time.monotonic() - began < seconds


def frozen_at(store: SqlStore, postgres: Postgres, moment: str, word: str = "") -> ExitStack:
    """Freezes the server right before the store's writer commits, or says the first statement with this word."""
    freeze, ahead = ExitStack(), [postgres.frozen()]

    def stop(*given: Any) -> None:
        if ahead and (not word or word in given[2]):
            freeze.enter_context(ahead.pop())

    event.listen(store._engines.write, moment, stop)
    return freeze


@pytest.mark.real
def test_a_read_and_a_write_end_in_bounded_time_and_the_next_ones_work(store: SqlStore, postgres: Postgres) -> None:
    term = held(store)
    store.assignments()
    with postgres.frozen():
        with unavailable_within(LIMIT + CONNECTING + SLACK):
            store.assignments()
        with unavailable_within(LIMIT + CONNECTING + SLACK):
            store.record(samples.operation(phase=Phase.RESOLVING), term=term)
    assert [operation.phase for operation in store.operations()] == [Phase.FENCING]
    assert [assignment.epoch for assignment in store.assignments()] == [2]
    store.record(samples.operation(phase=Phase.RESOLVING), term=term)


@pytest.mark.real
@pytest.mark.parametrize(("moment", "word", "may_stand"), [CUT_OFF_BETWEEN, CUT_OFF_AT_THE_END])
def test_a_write_that_is_cut_off_is_whole_or_not_there(
    store: SqlStore, postgres: Postgres, moment: str, word: str, may_stand: set[tuple[int, int]]
) -> None:
    term = term_of(store)
    with frozen_at(store, postgres, moment, word), unavailable_within(LIMIT + SLACK):
        store.record(samples.operation(), term=term, intents=[samples.intent()])
    assert term_of(store) == term, "which waits for the write that locks the lease"
    assert (len(store.operations()), len(store.pending_intents("a"))) in may_stand
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    assert (len(store.operations()), len(store.pending_intents("a"))) == (1, 1)


def test_a_server_that_takes_a_connection_and_stays_silent_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, unavailable_within(CONNECTING + SLACK):
        open_store(f"postgresql://tideover@127.0.0.1:{server.getsockname()[1]}/tideover", PATIENCE)
