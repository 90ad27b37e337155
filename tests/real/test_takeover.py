"""A runner that is killed right behind the commit: another one proves it gone on the new checkpoint, and continues."""

import re

import pytest

from orchestrator.facts.current import open_operations
from orchestrator.lease import Leadership
from orchestrator.new_requests import RequestSpec, submit
from orchestrator.operation.wait import RequestWait, outcome_of
from state.model.entities import OperationKind, Phase
from state.settings.keys import Tideover
from streaming.clocks import SystemClock
from streaming.kafka.link import Link
from tests.real.test_runner import Stage, stage
from tests.runner_process import RunnerProcess

__all__ = ["stage"]

pytestmark = [pytest.mark.real, pytest.mark.shared]


def test_a_runner_killed_behind_the_commit_is_followed_and_all_is_read_once(
    stage: Stage,
) -> None:
    queries = stage.settings["queries"]
    assert isinstance(queries, dict)
    queries["ids"]["runners"] = ["a", "b"]
    stage.settings |= {
        "runners": {"a": {}, "b": {}},
        "routes": [{"from": "east", "to": "west"}, {"from": "west", "to": "east"}],
    }
    settings = Tideover.model_validate(stage.settings)
    links = {name: Link(cluster) for name, cluster in settings.clusters.items()}
    stage.extend(200)
    first = stage.runner()
    second = RunnerProcess(stage.settings, stage.folder, name="b")
    killed: list[Phase] = []

    def kill_behind_the_commit() -> None:
        behind = [o.phase for o in open_operations(stage.store) if o.phase in {Phase.STARTING, Phase.VERIFYING}]
        if behind and not killed:
            killed.extend(behind)
            first.kill()

    try:
        first.until("every record is read", lambda: stage.has_all(200))
        first.until("the position is tracked", lambda: any(each.ring for each in stage.store.positions("ids")))
        second.until(
            "b is there, and warm", lambda: any(each.warm for each in stage.store.runners() if each.runner == "b")
        )
        done = r"warmed up .*queries=\{'ids': [1-9]\d*\} records=\([1-9]\d*, [1-9]\d*\)"
        second.until("it has run what it stands by for", lambda: re.search(done, second.log()))
        clock = SystemClock()
        work = RequestWait(
            store=stage.store,
            settings=settings,
            logs=links.__getitem__,
            clock=clock,
            lead=Leadership(stage.store, clock, "test"),
            actor="test",
            watch=kill_behind_the_commit,
        )
        wish = RequestSpec(
            kind=OperationKind.FAILOVER,
            targets={"ids": "west"},
            expect_active={},
            actor="test",
            reason="",
            consents=(),
        )
        (request,) = work.see_through(submit(stage.store, wish), seconds=300)
        operation = outcome_of(stage.store, request)
        assert operation is not None, request.refused
        steps = [(step.name, step.outcome) for step in stage.store.steps(operation.id)]
        assert (operation.outcome, operation.epoch) == ("done", 3), (operation.sentence, steps, second.log()[-3000:])
        assert ("takeover", "done") in steps
        assert killed
        assert {each.runner for each in stage.store.runners()} == {"b"}, "b has seen that a is gone, and said so"
        row = stage.row()
        assert (row.runner, row.cluster, row.epoch, row.placed_epoch) == ("b", "west", 3, 2)
        stage.extend(300)
        second.until("the successor reads on", lambda: stage.has_all(300))
        assert sorted(stage.ids()) == list(range(300))
    finally:
        first.kill()
        second.kill()
        for link in links.values():
            link.close()
