"""A real runner whose row is put back to an older copy: it continues, and starts again at its place once reconciled."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from orchestrator.lease import Leadership
from orchestrator.new_requests import RequestSpec, submit
from orchestrator.operation.reconcile import reconcile, sides_of
from orchestrator.operation.wait import RequestWait
from state.model.entities import Desired, OperationKind, RunState
from state.settings.keys import Tideover
from state.store.sql.store import SqlStore
from streaming.clocks import SystemClock
from streaming.kafka.link import Link
from tests.real.test_runner import Stage, stage

__all__ = ["stage"]  # the fixture, which pytest finds by its name

pytestmark = [pytest.mark.real, pytest.mark.shared]


def put_back(stage: Stage, epoch: int) -> None:
    """Give the row an older epoch, as a restored file would; the table refuses that otherwise."""
    assert isinstance(stage.store, SqlStore)
    with stage.store._engines.write.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER assignments_epoch_grows"))
        connection.execute(sa.text("UPDATE assignments SET epoch = :epoch"), {"epoch": epoch})
        connection.execute(sa.text("DELETE FROM query_facts"))


def turned_down(stage: Stage) -> str | None:
    """What a failover that is requested now is turned down with."""
    settings, clock = Tideover.model_validate(stage.settings), SystemClock()
    links = {name: Link(cluster) for name, cluster in settings.clusters.items()}
    try:
        work = RequestWait(
            store=stage.store,
            settings=settings,
            logs=links.__getitem__,
            clock=clock,
            lead=Leadership(stage.store, clock, "test"),
            actor="test",
        )
        wish = RequestSpec(
            kind=OperationKind.FAILOVER,
            targets={"ids": "west"},
            expect_active={},
            actor="test",
            reason="",
            consents=(),
        )
        (request,) = work.see_through(submit(stage.store, wish), seconds=120)
        return request.refused
    finally:
        for link in links.values():
            link.close()


def test_a_query_runs_on_under_a_restored_row_and_restarts_once_reconciled(stage: Stage) -> None:
    stage.extend(100)
    runner = stage.runner()
    try:
        runner.until("every record is read", lambda: stage.has_all(100))
        operation = stage.hold()
        runner.until("the held query is stopped", lambda: stage.state() is RunState.STOPPED)
        again = replace(stage.row(), epoch=3, desired=Desired.RUNNING)
        aborted = replace(operation, outcome="aborted", ended_at=again.changed_at)
        event = stage.store.history()[-1]
        assert stage.store.place(again, operation=aborted, from_epoch=2, term=stage.term, steps=(), event=event)
        stage.extend(140)
        runner.until("epoch 3 reads on", lambda: stage.has_all(140))

        put_back(stage, 1)
        runner.until("the runner reports what it runs", lambda: (fact := stage.fact()) and fact.epoch == 3)
        stage.extend(180)
        runner.until("what runs goes on", lambda: stage.has_all(180))
        assert stage.row().epoch == 1
        sides = sides_of(stage.store, "ids")
        assert sides is not None
        assert (sides.runs.epoch, sides.runs.state, sides.runs.checkpoint) == (3, RunState.RUNNING, again.checkpoint)
        assert (turned_down(stage) or "").startswith(
            "store-current: runner a runs ids under epoch 3, but the store knows only epoch 1"
        )
        assert stage.store.operations(only_open=True) == []
        assert stage.row().epoch == 1

        now = reconcile(stage.store, Tideover.model_validate(stage.settings), sides, actor="ann@desk", reason="")
        assert (now.epoch, now.cluster, now.checkpoint) == (4, "east", again.checkpoint)
        stage.extend(220)
        runner.until("epoch 4 reads on", lambda: stage.has_all(220) and (fact := stage.fact()) and fact.epoch == 4)
        assert sides_of(stage.store, "ids") is None
        assert runner.terminate() == 0
        assert sorted(stage.ids()) == list(range(220))
    finally:
        runner.kill()
