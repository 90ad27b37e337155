"""A join of two topics, a Kafka sink and a Delta table: failover with a tail, the way home, and there again by will."""

from pathlib import Path
from typing import Any

import pytest

from lab.scenario import Script, open_world
from lab.stage import Stage, await_batches, await_running, stage
from tests.ports import free_base_port
from tests.real import kinds

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]
NAMES = (kinds.JOINED, kinds.COPIED, kinds.DELTA)
SLOW_SECONDS = 300.0
"""A batch into a Delta table takes ten seconds on a busy machine, the first one a minute."""
STEP = 1_000_000
"""Between the first ids of two loads."""


def test_joins_kafka_sinks_and_delta_tables_go_there_and_back_exactly(tmp_path: Path) -> None:
    with stage(tmp_path / "run", print) as on:
        open_world(on, Script(base_port=free_base_port()))
        kinds.declare(on, *NAMES, alone=True)
        runner = on.start_runner()
        await_running(on, runner)
        left = leave_in_a_failover(on)
        twice = left[kinds.COPIED]["plan"]["totals"]["possible_replay_records"]
        tails = {name: kinds.tail(on, name, "east", "west") for name in NAMES}
        assert all(tails.values()), "a replicator that was stopped first leaves a tail"
        assert_listed(on, left, tails)
        on.lab("turn")
        with kinds.pairs(on, "west", 2 * STEP):
            await_batches(on, NAMES, more=3, timeout=SLOW_SECONDS)
            assert_moved(on, "failback", *NAMES)
            await_batches(on, NAMES, more=3, timeout=SLOW_SECONDS)
        kinds.assert_delivered(on, NAMES, "east", tails, twice)

        on.lab("turn")
        with kinds.pairs(on, "east", 3 * STEP):
            await_batches(on, NAMES, more=3, timeout=SLOW_SECONDS)
            assert_moved(on, "switchover", *NAMES, "--to", "west")
            await_batches(on, NAMES, more=3, timeout=SLOW_SECONDS)
        kinds.assert_delivered(on, NAMES, "east", tails, twice)
        on.stop(runner)


def leave_in_a_failover(on: Stage) -> dict[str, dict[str, Any]]:
    """East dies behind its replicator, under load, and is started when all have left; the operations by their query."""
    with kinds.pairs(on, "east", 0):
        await_batches(on, NAMES, more=5, timeout=SLOW_SECONDS)
        on.lab("kill", "replicator")
        on.lab("kill", "east")
        code, identities = on.move("failover", *NAMES, "--to", "west", "--reason", "east died", "--consent", "loss")
    operations = [on.query("show-op", each) for each in identities]
    assert (code, {each["outcome"] for each in operations}) == (0, {"done"}), operations
    with kinds.pairs(on, "west", STEP):
        await_batches(on, NAMES, more=3, timeout=SLOW_SECONDS)
    on.lab("start", "east")
    return {each["query"]: each for each in operations}


def assert_listed(on: Stage, left: dict[str, dict[str, Any]], tails: dict[str, set[kinds.Place]]) -> None:
    """Tideover lists each record that only east has, and no other."""
    for name, tail in tails.items():
        reported = on.query("show-op", left[name]["id"], "--tail")
        assert reported["whole"]
        assert {(each["topic"], each["partition"], each["offset"]) for each in reported["records"]} == tail


def assert_moved(on: Stage, *words: str) -> None:
    code, identities = on.move(*words)
    operations = [on.query("show-op", each) for each in identities]
    assert (code, {each["outcome"] for each in operations}) == (0, {"done"}), operations
    for plan in [each["plan"] for each in operations]:
        assert {row["method"] for row in plan["partitions"]} == {"exact"}
        assert [plan["totals"][each] for each in ("replay_records", "possible_replay_records")] == [0, 0]
