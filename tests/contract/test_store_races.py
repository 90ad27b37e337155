"""Several processes and threads at one store, and processes that die: what the SQL stores must survive."""

import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from state.errors import StaleTerm
from state.model.entities import Phase
from state.store.sql.engine import make_engines
from state.store.sql.history import append
from state.store.sql.migrate import open_store
from state.store.sql.schema import leases
from state.store.sql.store import SqlStore
from state.store.write_checks import CONTROLLER
from tests.contract import samples
from tests.contract.samples import held, term_of

ROOT = Path(__file__).parents[2]
SECONDS = 120


def racer(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.contract.racer", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outputs(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What each printed; a failed process fails the test with its own words."""
    try:
        printed = []
        for process in processes:
            output, error = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, error
            printed.append(output)
        return printed
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def opened(url: str) -> SqlStore:
    store = open_store(url)
    assert isinstance(store, SqlStore)
    return store


def test_no_term_ever_has_two_holders(made: str) -> None:
    store = opened(made)
    holders = defaultdict(set)
    for name, printed in enumerate(outputs([racer("lead", made, f"holder-{n}", "1.5") for n in range(6)])):
        for term in map(int, printed.split()):
            holders[term].add(name)
    assert len(holders) > 1, "nobody ever took over: the race proves nothing"
    assert [term for term, names in holders.items() if len(names) > 1] == []
    lease = store.leader(CONTROLLER)
    assert lease is not None
    assert lease.term == max(holders)
    store.close()


def test_read_modify_write_by_threads_loses_nothing(made: str) -> None:
    store = opened(made)
    before = term_of(store)
    one = leases.c.name == CONTROLLER

    def grow(_: int) -> None:
        with store._writing() as connection:
            term = connection.execute(sa.select(leases.c.term).where(one).with_for_update()).scalar_one()
            connection.execute(sa.update(leases).where(one).values(term=term + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(grow, range(100)))
    lease = store.leader(CONTROLLER)
    assert lease is not None
    assert lease.term == before + 100
    store.close()


def test_a_takeover_cannot_slip_between_the_check_of_a_term_and_the_write(made: str) -> None:
    store, rival = opened(made), opened(made)
    term = term_of(store, "one")
    taking = threading.Event()

    def take_over() -> int:
        taking.set()
        return term_of(rival, "two")

    with ThreadPoolExecutor(1) as pool:
        with store._leading(term) as connection:
            taken = pool.submit(take_over)
            assert taking.wait(SECONDS)
            with pytest.raises(TimeoutError):
                taken.result(timeout=0.3)
            connection.execute(sa.update(leases).where(leases.c.name == "other").values(holder="one"))
        assert taken.result(timeout=SECONDS) > term
    with pytest.raises(StaleTerm):
        store.record(samples.operation(), term=term)
    store.close()
    rival.close()


def test_a_write_that_waited_for_a_takeover_is_refused(made: str) -> None:
    store, rival = opened(made), opened(made)
    term = term_of(store, "one")
    with ThreadPoolExecutor(1) as pool:
        with rival._writing() as connection:
            taken = sa.update(leases).where(leases.c.name == CONTROLLER).values(holder="two", term=term + 1)
            connection.execute(taken)
            late = pool.submit(store.record, samples.operation(), term=term)
            with pytest.raises(TimeoutError):
                late.result(timeout=0.3)
        with pytest.raises(StaleTerm):
            late.result(timeout=SECONDS)
    assert store.operations() == []
    store.close()
    rival.close()


def test_a_consent_and_a_write_of_its_operation_at_once_lose_nothing(made: str) -> None:
    store, rival = opened(made), opened(made)
    term = held(store)
    resolving = samples.operation(phase=Phase.RESOLVING)
    with ThreadPoolExecutor(1) as pool:
        with store._leading(term) as connection:
            store._write_operation(connection, resolving)
            given = pool.submit(rival.consent, "op-1", ("unfenced",), term=term, event=samples.event())
            with pytest.raises(TimeoutError):
                given.result(timeout=0.3)
        assert given.result(timeout=SECONDS)
    assert store.operation("op-1") == samples.operation(phase=Phase.RESOLVING, consents=("loss", "repeats", "unfenced"))
    store.close()
    rival.close()


def test_a_process_killed_before_its_commit_leaves_nothing_half_written(made: str) -> None:
    process = racer("die", made)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)
    store = opened(made)
    assert store.assignments() == [samples.assignment()]
    assert (store.operations(), store.steps("op-1"), store.history()) == ([], [], [])
    assert store.hold(
        samples.operation(), from_epoch=1, term=term_of(store), step=samples.step(), event=samples.event()
    )
    store.close()


def test_events_become_visible_in_the_order_of_their_numbers(made: str) -> None:
    store = opened(made)
    with ThreadPoolExecutor(1) as pool:
        with store._writing() as connection:
            append(connection, [samples.event(text="first")])
            second = pool.submit(store.note, samples.event(text="second"))
            with pytest.raises(TimeoutError):
                second.result(timeout=0.3)
            assert store.history() == []
        second.result(timeout=SECONDS)
    assert [event.text for event in store.history()] == ["first", "second"]
    store.close()


def test_readers_do_not_wait_for_a_writer(made: str) -> None:
    store = opened(made)
    store.adopt(samples.assignment())
    with make_engines(made).write.begin() as connection:
        connection.execute(sa.text("UPDATE assignments SET epoch = 2"))
        assert store.assignments() == [samples.assignment()]
    store.close()
