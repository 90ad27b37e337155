"""More restored stores on real parts: backups from the middle of a move, and from between two."""

import pytest

from state.model.entities import Phase
from tests.real.restored import assert_runs_on, back_up, back_up_in, reconcile_all, restart
from tests.real.test_restored import move
from tests.real.test_switch import QUERIES, Switched, stage

__all__ = ["stage"]  # the fixture, which pytest finds by its name

pytestmark = pytest.mark.long


@pytest.mark.parametrize("phase", [Phase.FENCING, Phase.VERIFYING])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_store_from_the_middle_of_a_move_is_reconciled(stage: Switched, phase: Phase, restarted: bool) -> None:
    ids, (_, there) = stage.query_ids(), stage.gathered()
    put_back = back_up_in(stage, phase, there)
    stage.await_all("orders")
    runs, epochs = stage.run_ids(), _epochs(stage)
    if restarted:
        host = stage.host
        host.kill()
        put_back()
        stage.run(host.name)
        stage.until("every query runs, or its files were read", lambda: _settled(stage))
    else:
        put_back()
        stage.until("what runs continues", lambda: stage.run_ids() == runs)
        stage.until("the runner reports what it runs", lambda: _epochs(stage) == epochs)
    reconcile_all(stage)
    assert_runs_on(stage, there, ids)


def _epochs(stage: Switched) -> list[int]:
    """The epoch that each query last reported: a store that was put back has older ones."""
    return [stage.fact(query).epoch for query in QUERIES]


def _settled(stage: Switched) -> bool:
    rows = [stage.store.assignment(query) for query in QUERIES]
    found = [stage.store.found_place(query) for query in QUERIES]
    pairs = zip(rows, found, strict=True)
    return all(row is not None and place is not None and place.is_beside(row) for row, place in pairs)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_store_from_between_two_moves_is_reconciled(stage: Switched, restarted: bool) -> None:
    ids, (here, there) = stage.query_ids(), stage.gathered()
    move(stage, there)
    put_back = back_up(stage)
    move(stage, here)
    if restarted:
        restart(stage, put_back)
    else:
        runs, epochs = stage.run_ids(), _epochs(stage)
        put_back()
        stage.until("what runs continues", lambda: stage.run_ids() == runs)
        stage.until("the runner reports what it runs", lambda: _epochs(stage) == epochs)
    reconcile_all(stage)
    assert_runs_on(stage, here, ids)
