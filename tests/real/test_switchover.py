"""A switchover on real parts: both clusters alive, 2,000 records a second, and every record delivered once.

`test_chain.py` has one in every run of the tests: of two queries, while the replicator lags.
"""

import json
import time
from pathlib import Path

import pytest

from lab.configuration import changing, declaration
from lab.scenario import Script, open_world
from lab.stage import await_running, stage
from tests.ports import free_base_port
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.long]


def test_a_switchover_under_load_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with stage(tmp_path / "story", print) as on:
        open_world(on, Script(base_port=free_base_port()))
        runner = on.start_runner()
        await_running(on, runner)
        queries = declaration(on.config)["queries"]
        carried = [name for name, query in queries.items() if query.get("resume") != "fresh"]
        traffic = on.start_traffic("east", 2000, 600)
        await_running(on, runner, batches=3)

        code, printed = on.tideover("switchover", *carried, "--to", "west", "--yes", "-o", "json", check=False)
        operations = json.loads(printed)
        assert (code, [each["outcome"] for each in operations]) == (0, ["done"] * len(carried))
        for plan in [each["plan"] for each in operations]:
            assert plan["uncommitted_batch"] == "none", "each query had finished its batch"
            assert {row["method"] for row in plan["partitions"]} == {"exact"}
            totals = plan["totals"]
            assert (totals["replay_records"], totals["possible_replay_records"], totals["replay_later_records"]) == (
                0,
                0,
                0,
            )

        batches = {row["query"]: row["batch"] for row in on.query("list")}

        def reads_on() -> bool:
            rows = [row for row in on.query("list") if row["query"] in carried]
            return all(row["cluster"] == "west" and row["batch"] >= batches[row["query"]] + 3 for row in rows)

        until(reads_on, "every query reads on west what is still written to east")
        on.stop(traffic)
        time.sleep(2)
        verdict = json.loads(on.lab("verify", "--wait", "60", "-o", "json"))
        for name in carried:
            row = verdict[name]
            assert (row["lost"], row["duplicated"], row["exposed"]) == (0, 0, 0), row
            assert row["delivered"] == row["acked"] > 0


def test_a_switchover_without_its_replicator_goes_back(tmp_path: Path) -> None:
    with stage(tmp_path / "story", print) as on:
        open_world(on, Script(base_port=free_base_port()))
        with changing(on.config) as config:
            config["policy"] = {"catch_up": "5s"}
        name = next(each for each, query in config["queries"].items() if query.get("resume") != "fresh")
        runner = on.start_runner()
        await_running(on, runner)
        traffic = on.start_traffic("east", 500, 600)
        await_running(on, runner, batches=3)
        on.lab("kill", "replicator")
        before = on.query("show", name)
        until(lambda: on.query("show", name)["batch"] > before["batch"] + 2, "the query reads what nobody copies")

        code, printed = on.tideover(
            "switchover", name, "--to", "west", "--yes", "--consent", "replication", "-o", "json", check=False
        )
        operation = json.loads(printed)
        assert (code, operation["outcome"]) == (1, "refused")
        assert operation["sentence"].startswith("caught-up: west lacks ")
        back = on.query("show", name)
        assert (back["cluster"], back["checkpoint"]) == ("east", before["checkpoint"])
        until(lambda: on.query("show", name)["batch"] > back["batch"] + 2, "it reads on")
        on.stop(traffic)
        on.lab("start", "replicator")
        verdict = json.loads(on.lab("verify", "--wait", "60", "-o", "json"))
        assert (verdict[name]["lost"], verdict[name]["duplicated"]) == (0, 0), verdict[name]
