"""Two queries of which one reads what the other writes to Kafka, moved by one command while the replicator lags."""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.scenario import Script, open_world
from lab.stage import Stage, await_batches, await_running, stage
from lab.world import CLUSTERS
from tests.ports import free_base_port
from tests.real import kinds
from tests.waiting import until

pytestmark = pytest.mark.real
NAMES = (kinds.TAKEN, kinds.HANDED)
"""The configuration has them the wrong way round."""


def test_a_chain_moves_upstream_first_and_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with stage(tmp_path / "story", print) as on:
        open_world(on, Script(base_port=free_base_port()))
        kinds.declare(on, *NAMES, alone=True)
        runner = on.start_runner()
        await_running(on, runner)
        with kinds.pairs(on, "east", 0):
            await_batches(on, NAMES, more=3)
            first, second = moved_while_the_replicator_lags(on)
            await_batches(on, NAMES, more=3)
        assert_waited(first, second)
        kinds.assert_delivered(on, [kinds.TAKEN], "east", {})
        written = assert_behind_the_copies(on)
        must, may = kinds.wanted(on, kinds.HANDED, "east")
        assert (written.keys(), may, set(written.values())) == (must, must, {1})
        on.stop(runner)


def moved_while_the_replicator_lags(on: Stage) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """``switchover --all``: the writer waits for the copies, and the reader reads on until then; their operations."""
    on.lab("freeze", "replicator")
    answered: list[tuple[int, list[str]]] = []
    verb = threading.Thread(target=lambda: answered.append(on.move("switchover", "--all", "--to", "west")))
    verb.start()
    rows: dict[str, Any] = {}

    def waits() -> bool:
        assert verb.is_alive(), answered
        rows.update({row["query"]: row for row in on.query("list")})
        operation = rows[kinds.HANDED]["operation"]
        return operation is not None and "waiting for the replicator" in on.query("show-op", operation)["sentence"]

    until(waits, "the writer waits for its copies")
    batch = rows[kinds.TAKEN]["batch"]
    assert (rows[kinds.TAKEN]["cluster"], rows[kinds.TAKEN]["operation"]) == ("east", None)
    on.lab("thaw", "replicator")
    verb.join()
    ((code, identities),) = answered
    operations = {each["query"]: each for each in (on.query("show-op", identity) for identity in identities)}
    assert (code, [each["outcome"] for each in operations.values()]) == (0, ["done", "done"]), operations
    assert operations[kinds.TAKEN]["plan"]["data_batch"] > batch, "it read on"
    return operations[kinds.HANDED], operations[kinds.TAKEN]


def assert_waited(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """The reader stopped when the writer was committed behind its copies, and both continued exactly."""
    gates = {gate["name"]: gate for gate in first["plan"]["gates"]}
    assert (gates["output-copied"]["ok"], gates["output-copied"]["measured"]) == (True, "2 of 2 partitions")
    assert "output-copied" not in {gate["name"] for gate in second["plan"]["gates"]}, "nobody here reads its output"
    committed = next(step["ended_at"] for step in first["steps"] if step["name"] == "commit")
    assert min(step["started_at"] for step in second["steps"]) >= committed
    for plan in (first["plan"], second["plan"]):
        assert {row["method"] for row in plan["partitions"]} == {"exact"}
        assert [plan["totals"][each] for each in ("replay_records", "possible_replay_records")] == [0, 0]


def assert_behind_the_copies(on: Stage) -> Counter[int]:
    """What the writer wrote on west lies behind the copies, in every partition; how often west holds each id."""
    east, west = (kinds.records(on, cluster, kinds.HANDS) for cluster in CLUSTERS)
    copied = {json.loads(value)["id"] for _, value, _ in east.values()}
    ids = {place: json.loads(value)["id"] for place, (_, value, _) in west.items()}
    ours = {place: number for place, number in ids.items() if number >= 0}
    assert copied <= set(ours.values()), "the replicator has brought all of it"
    for partition in range(kinds.PARTITIONS):
        there = {offset: number for (_, at, offset), number in ours.items() if at == partition}
        new = [offset for offset, number in there.items() if number not in copied]
        assert new
        assert max(there.keys() - set(new)) < min(new), f"partition {partition}: a copy came behind a new record"
    return Counter(ours.values())
