"""Both databases wake another process for what it waits for, and a lost connection is made again."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from state.model.entities import IntentState
from state.store import wakeups as module
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from state.store.wakeups import Wakeups
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held, term_of
from tests.postgres import Postgres

LONG = 20.0


def write_request(store: ControllerStore) -> None:
    store.add_request(samples.request())


def order(store: ControllerStore) -> None:
    store.record(samples.operation(), term=term_of(store), intents=[samples.intent()])


def answer(store: ControllerStore) -> None:
    assert store.report(samples.intent(state=IntentState.DONE, result={}, ended_at=AT + SECOND))


def hold(store: ControllerStore) -> None:
    held(store)


@pytest.fixture
def other(made: str) -> Iterator[ControllerStore]:
    """The store as another process has it open."""
    store = open_store(made)
    yield store
    store.close()


@pytest.fixture
def wakeups(made: str) -> Iterator[Wakeups]:
    """Of a process that listens already."""
    store = open_store(made)
    wakeups = store.wakeups()
    wakeups.wait(0, LONG)
    assert wakeups.are_heard
    yield wakeups
    wakeups.close()
    store.close()


@pytest.mark.parametrize(
    ("before", "come"),
    [((), write_request), ((), hold), ((hold,), order), ((hold, order), answer)],
    ids=["a request", "an assignment", "an order", "an answer"],
)
def test_a_process_is_woken_by(
    wakeups: Wakeups,
    other: ControllerStore,
    before: tuple[Callable[[ControllerStore], None], ...],
    come: Callable[[ControllerStore], None],
) -> None:
    for each in before:
        count = wakeups.count
        each(other)
        wakeups.wait(count, LONG)
    time.sleep(0.1)  # an order is one write, a hold is several
    count = wakeups.count
    come(other)
    began = time.monotonic()
    wakeups.wait(count, LONG)
    assert wakeups.count > count
    assert time.monotonic() - began < LONG


def test_a_waiting_process_is_released_at_the_end(made: str) -> None:
    store = open_store(made)
    wakeups = store.wakeups()
    wakeups.wait(0, LONG)
    count = wakeups.count
    waiting = threading.Thread(target=wakeups.wait, args=(count, LONG))
    waiting.start()
    wakeups.close()
    waiting.join(LONG / 2)
    assert not waiting.is_alive()
    assert not [each for each in threading.enumerate() if each.name == "wakeups"]
    store.close()


@pytest.mark.real
def test_a_connection_that_is_lost_is_made_again_and_wakes(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.01)
    url = postgres.new_store()
    store, engine = open_store(url), sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    wakeups = store.wakeups()
    wakeups.wait(0, LONG)
    count = wakeups.count
    with engine.connect() as connection:
        ended = sa.text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query = 'LISTEN tideover'"
        )
        assert connection.execute(ended).scalars().all() == [True]
    wakeups.wait(count, LONG)
    assert wakeups.count > count, "what was written in between is not looked for"
    count = wakeups.count
    write_request(store)
    wakeups.wait(count, LONG)
    assert (wakeups.are_heard, wakeups.count > count) == (True, True)
    wakeups.close()
    engine.dispose()
    store.close()


@pytest.mark.real
def test_on_postgresql_reports_of_runners_wake_no_process(postgres: Postgres) -> None:
    store = open_store(postgres.new_store())
    wakeups = store.wakeups()
    wakeups.wait(0, LONG)
    count = wakeups.count
    assert store.report_query(samples.fact())
    store.save_positions([samples.position()])
    wakeups.wait(count, 0.3)
    assert wakeups.count == count
    wakeups.close()
    store.close()
