"""A store that is put back to an older copy while a controller leads: the next leader has a term of its own."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
import sqlalchemy as sa

from state.errors import StaleTerm
from state.store.controller_store import ControllerStore
from state.store.sql.schema import leases
from state.store.sql.store import SqlStore
from state.store.write_checks import CONTROLLER
from tests.contract import samples
from tests.contract.samples import TTL, term_of
from tests.memory_store import MemoryStore

Take = Callable[[ControllerStore, str], int]


def by_time(store: ControllerStore, holder: str) -> int:
    return term_of(store, holder)


def by_proof(store: ControllerStore, holder: str) -> int:
    """As the successor of a holder that is proven dead."""
    lease = store.seize(CONTROLLER, holder, "zero", TTL)
    assert lease is not None
    return lease.term


@pytest.mark.parametrize("has_led", [False, True])
def test_no_term_is_given_a_second_time_after_a_copy_was_put_back(store: ControllerStore, has_led: bool) -> None:
    refuse_the_old(store, by_time, has_led=has_led)


def test_no_term_is_seized_a_second_time_after_a_copy_was_put_back(store: ControllerStore) -> None:
    refuse_the_old(store, by_proof, has_led=True)


def refuse_the_old(store: ControllerStore, take: Take, *, has_led: bool) -> None:
    """One leads, the store is put back, another leads: what the first one writes before it notices is refused."""
    if has_led:
        term_of(store, "zero")
    put_back = back_up(store)
    old = take(store, "one")
    put_back()
    new = take(store, "two")
    with pytest.raises(StaleTerm):
        store.record(samples.operation(), term=old)
    store.record(samples.operation(), term=new)


def back_up(store: ControllerStore) -> Callable[[], None]:
    """Copy the store, or of PostgreSQL the leases; what is returned puts the copy back in its place."""
    if isinstance(store, MemoryStore):
        return store.back_up()
    assert isinstance(store, SqlStore)
    return back_up_file(store) if store._engines.dialect == "sqlite" else back_up_leases(store)


def back_up_file(store: SqlStore) -> Callable[[], None]:
    file = store._engines.write.url.database
    assert file is not None

    def copy(source: str, target: str) -> None:
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
            one.backup(other)

    copy(file, f"{file}.kept")
    return lambda: copy(f"{file}.kept", file)


def back_up_leases(store: SqlStore) -> Callable[[], None]:
    with store._engines.read.connect() as connection:
        kept = [row._asdict() for row in connection.execute(sa.select(leases))]

    def put_back() -> None:
        with store._engines.write.begin() as connection:
            connection.execute(sa.text("SET LOCAL session_replication_role = replica"))  # no trigger of ours looks on
            connection.execute(sa.delete(leases))
            if kept:
                connection.execute(sa.insert(leases), kept)

    return put_back
