"""A restored store on real parts: what runs continues, and the files of a query show where it is."""

import pytest

from tests.real.restored import assert_runs_on, back_up, is_ahead, reconcile_all, restart
from tests.real.test_switch import QUERIES, Switched, stage
from tests.real.theatre import ORDERS

__all__ = ["stage"]  # the fixture, which pytest finds by its name

pytestmark = [pytest.mark.real, pytest.mark.shared]


def move(stage: Switched, there: str) -> None:
    stage.move("switchover", there, "--consent", "replication")
    stage.more(ORDERS)
    stage.await_all(ORDERS)


def test_a_store_from_before_a_round_trip_ends_no_run(stage: Switched) -> None:
    ids, (here, there) = stage.query_ids(), stage.gathered()
    put_back = back_up(stage)
    move(stage, there)
    move(stage, here)
    runs, rows = stage.run_ids(), {query: stage.store.assignment(query) for query in QUERIES}
    put_back()
    stage.more(ORDERS)
    stage.until("the runner reports what it runs", lambda: all(is_ahead(stage, query) for query in QUERIES))
    assert stage.run_ids() == runs, "what runs goes on"
    refused = stage.type("switchover", "--all", "--to", there, "--consent", "replication", "--yes").end()
    assert refused.code == 1
    assert "the store was restored from an older backup; tideover reconcile" in refused.err
    assert stage.run_ids() == runs, "no run was ended before anybody typed reconcile"
    reconcile_all(stage)
    assert_runs_on(stage, here, ids)
    for query in QUERIES:
        row, was = stage.store.assignment(query), rows[query]
        assert row is not None
        assert was is not None
        assert (row.mapping, row.cluster) == (was.mapping, was.cluster)
        assert row.epoch > was.epoch


def test_a_restarted_runner_finds_its_query_by_its_mapping(stage: Switched) -> None:
    ids, (here, there) = stage.query_ids(), stage.gathered()
    put_back = back_up(stage)
    move(stage, there)
    restart(stage, put_back)
    place = ("--cluster", here, "--checkpoint", str(stage.checkpoint("sums")))
    refused = stage.type("reconcile", "sums", *place, "--yes").end()
    assert refused.code == 1
    assert f"sums is not on {here}: mapping " in refused.err
    assert f"leads to {there}" in refused.err
    reconcile_all(stage)
    assert_runs_on(stage, there, ids)
