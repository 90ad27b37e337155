"""A real store that is copied, and whose copy is put back while its runner lives, is restarted or is gone."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from state.model.entities import Phase, RunState
from tests.real.test_switch import QUERIES, Switched
from tests.real.theatre import ORDERS


def back_up(stage: Switched) -> Callable[[], None]:
    """Copy the store file as a backup tool does; what is returned puts the copy back under all that use it."""
    copy = stage.folder / "backup.db"
    copy.unlink(missing_ok=True)
    _copy(stage.store_file, copy)
    return lambda: _copy(copy, stage.store_file)


def back_up_in(stage: Switched, phase: Phase, there: str) -> Callable[[], None]:
    """Move all queries, and copy the store while an operation of it is in a phase, or in a later one."""
    said = stage.type("switchover", "--all", "--to", there, "--consent", "replication", "--yes", "-o", "json")
    order = list(Phase)
    wanted = order[order.index(phase) :]
    stage.until(
        f"a move is in {phase}", lambda: any(each.phase in wanted for each in stage.store.operations(only_open=True))
    )
    put_back = back_up(stage)
    ended = said.end()
    assert ended.code == 0, ended.err
    return put_back


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source, timeout=60)) as one, closing(sqlite3.connect(target, timeout=60)) as other:
        one.backup(other)


def restart(stage: Switched, put_back: Callable[[], None]) -> None:
    """The runner is killed, the store is put back, and a runner that remembers nothing reads the files."""
    host = stage.host
    host.kill()
    put_back()
    stage.run(host.name)
    stage.until("the files were read", lambda: all(_is_found(stage, query) for query in QUERIES))


def _is_found(stage: Switched, query: str) -> bool:
    row, found = stage.store.assignment(query), stage.store.found_place(query)
    return row is not None and found is not None and found.is_beside(row) and found.cluster is not None


def is_ahead(stage: Switched, query: str) -> bool:
    """Whether the runner has reported that it runs a query under a newer epoch than the store knows."""
    row, fact = stage.store.assignment(query), stage.fact(query)
    return row is not None and fact.epoch > row.epoch


def _runs_under(stage: Switched, query: str, epoch: int) -> bool:
    fact = stage.fact(query)
    return (fact.state, fact.epoch, fact.error) == (RunState.RUNNING, epoch, None)


def reconcile_all(stage: Switched) -> str:
    """Type what the runbook says; what was said."""
    said = stage.type("reconcile", "--all", "--yes").end()
    assert said.code == 0, said.err
    return said.out


def assert_runs_on(stage: Switched, cluster: str, ids: dict[str, str]) -> None:
    """Every query reads the cluster by the checkpoint that it had, and its sinks have each record once."""
    stage.more(ORDERS)
    stage.await_all(ORDERS)
    stage.assert_same(ids)
    for query in QUERIES:
        row = stage.store.assignment(query)
        assert row is not None
        assert row.cluster == cluster
        # The records may have been read before the runner saw the new row.
        stage.until(f"{query} runs under its row", partial(_runs_under, stage, query, row.epoch))
    assert stage.type("reconcile", "--all", "--yes").end().code == 0
