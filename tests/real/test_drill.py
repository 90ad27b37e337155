"""A drill on real parts, under load: the query's own plan runs on the standby, and production does not notice.

The sinks are those of the example: tables by ``foreachBatch`` (one query with state), and Parquet files. What a drill
wrote into one of them would be a second delivery of records that the query itself delivers, which the judge counts.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.configuration import declaration
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage
from tests.ports import free_base_port
from tests.waiting import until

pytestmark = pytest.mark.real
REHEARSED = ("orders", "archive", "latest")
"""With state; with Parquet files; and begun afresh, by a function for ``foreachBatch`` that counts every delivery."""
MOVED = ("orders", "archive")
STEPS = ["resolve", "copy", "build", "start", "batch", "stop", "clean"]


def test_drills_under_load_touch_nothing_and_no_failover_waits_for_one(tmp_path: Path) -> None:
    with stage(tmp_path / "story", print) as on:
        open_world(on, Script(base_port=free_base_port()))
        declared = declaration(on.config)["queries"]
        checkpoints = [Path(declared[name]["checkpoint"]) for name in REHEARSED]
        runner = on.start_runner()
        traffic = on.start_traffic("east", 1000, 600)
        await_running(on, runner, batches=3)

        before = {row["query"]: row for row in on.query("list")}
        code, printed = on.tideover("drill", *REHEARSED, "-o", "json", check=False)
        drills = json.loads(printed)
        assert (code, [each.get("outcome") for each in drills]) == (0, ["done"] * len(REHEARSED)), printed
        for drill in drills:
            measured = drill["measured"]["drill"]
            print(drill["query"], measured["seconds"], measured["rows"], measured["files"], measured["bytes"])
            assert measured["rows"] == measured["rows_expected"] > 0
            assert [step["name"] for step in drill["steps"]] == STEPS
            if drill["query"] in MOVED:
                assert {row["method"] for row in drill["plan"]["partitions"]} == {"exact"}
        after = {row["query"]: row for row in on.query("list")}
        for name, row in before.items():
            assert [after[name][key] for key in ("cluster", "epoch", "runner", "state")] == [
                row[key] for key in ("cluster", "epoch", "runner", "state")
            ]
            assert after[name]["batch"] > row["batch"], "it ran on"
        assert copies(checkpoints) == []

        on.stop(traffic)
        assert_once(on)  # from now on there is nothing to read, and a drill waits for records
        on.start("drill", "orchestrator", "-c", str(on.config), "drill", "orders")
        until(lambda: is_copying(on), "a drill of orders is at work")
        on.lab("kill", "east")
        code, printed = on.tideover("failover", *MOVED, "--to", "west", "--yes", "-o", "json", check=False)
        moves = json.loads(printed)
        assert (code, {each["outcome"] for each in moves}) == (0, {"done"})
        until(lambda: on.query("show", "orders")["drill"]["outcome"] is not None, "the drill has ended")
        drill = on.query("show-op", on.query("show", "orders")["drill"]["id"])
        assert (drill["outcome"], drill["sentence"].startswith("stopped: ")) == ("refused", True)
        assert instant(drill["ended_at"]) < instant(moves[0]["ended_at"]), "it did not hold the failover up"
        until(lambda: copies(checkpoints) == [], "no copy of a drill is left")
        assert_once(on)


def assert_once(on: Stage) -> None:
    verdict = json.loads(on.lab("verify", "--wait", "60", "-o", "json"))
    for row in [verdict[name] for name in REHEARSED]:
        assert (row["lost"], row["duplicated"]) == (0, 0), row
        assert row["delivered"] > 0


def copies(checkpoints: list[Path]) -> list[Path]:
    return [each for folder in checkpoints for each in folder.glob("drill-*")]


def is_copying(on: Stage) -> bool:
    drill: Any = on.query("show", "orders")["drill"]
    return drill is not None and drill["outcome"] is None and "copies the checkpoint" in drill["sentence"]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
