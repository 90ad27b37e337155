"""HTTP says what the verbs say, and every controller serves it, whether it leads or not."""

import json
import socket
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from state.store.sql.migrate import open_store
from state.store.write_checks import CONTROLLER
from tests.served import ENVIRONMENT, OPERATOR, VIEWER, Served, serving
from tests.simulation.conftest import CONFIG
from tests.simulation.test_cli import run_json
from tests.simulation.world import World
from tests.waiting import until

_FLOWS = {"at", "progress_age_seconds", "batch", "progressed_at", "reported_at", "input_rows", "offsets", "lag_records"}
_FLOWS |= {"seen_seconds_ago", "sample_age_seconds", "tracked_at", "offset", "timestamp_ms", "remembered"}


def lasting(value: Any) -> Any:
    """Without what is another at every look."""
    if isinstance(value, dict):
        return {name: lasting(inner) for name, inner in value.items() if name not in _FLOWS}
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


def test_http_answers_with_what_the_verbs_print(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, moved = run_json(capsys, "failover", "revenue", "--to", "west", "--yes", "--reason", "<b>east</b> is down")
    assert code == 0
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with serving(folder, config=CONFIG) as served:
        capsys.readouterr()

        def same(path: str, *verb: str) -> Any:
            answer = served.call(path, token=VIEWER)
            assert answer.code == 200
            said = run_json(capsys, *verb)[1]
            if verb[0] == "show-op":  # which measures again, and sends requests to clusters
                assert answer.json["measured"].keys() == said["measured"].keys()
                said["measured"] = answer.json["measured"]
            assert lasting(answer.json) == lasting(said)
            return answer.json

        (listed,) = same("/api/queries", "list")
        assert (listed["query"], listed["cluster"]) == ("revenue", "west")
        shown = same("/api/queries/revenue", "show", "revenue")
        assert [each["id"] for each in shown["operations"]] == [moved["id"]]
        assert same("/api/queries/revenue/timeline", "timeline", "revenue") is not None
        reported = same(f"/api/operations/{moved['id']}", "show-op", moved["id"])
        assert (reported["outcome"], reported["reason"]) == ("done", "<b>east</b> is down")
        assert [step["name"] for step in reported["steps"]] == [step["name"] for step in moved["steps"]]
        same("/api/config", "config", "show")
        history = served.call("/api/history", token=OPERATOR).json
        assert history == {"events": run_json(capsys, "history")[1], "more": False}
        assert_pages(served, history["events"])
        assert_only(served, moved["id"])
        status = served.call("/api/status", token=VIEWER).json
        assert [each["sequence"] for each in status["events"]] == [each["sequence"] for each in history["events"][-10:]]
        assert [each["cluster"] for each in served.call("/api/clusters", token=VIEWER).json] == [
            "east",
            "west",
            "south",
        ]
        assert b"<b>" not in served.call(f"/api/operations/{moved['id']}", token=VIEWER).body


def assert_pages(served: Served, events: list[dict[str, Any]]) -> None:
    """The newest so many, and whether some are left out."""
    third = events[2]["sequence"]
    rest = served.call(f"/api/history?since={third}", token=VIEWER).json
    assert rest == {"events": events[3:], "more": False}
    newest = served.call(f"/api/history?since={third}&limit=2", token=VIEWER).json
    assert newest == {"events": events[-2:], "more": True}
    assert served.call(f"/api/history?since={events[-1]['sequence']}", token=VIEWER).json == {
        "events": [],
        "more": False,
    }


def assert_only(served: Served, moved: str) -> None:
    """What narrows a list does."""
    (row,) = served.call("/api/operations?query=revenue", token=VIEWER).json
    assert (row["id"], row["query"], row["outcome"]) == (moved, "revenue", "done")
    assert served.call("/api/operations?only_open=true", token=VIEWER).json == []
    assert served.call("/api/history?operation=nothing", token=VIEWER).json["events"] == []


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def requested(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return answer.read().decode()


def test_every_controller_serves_also_one_that_follows(folder: Path) -> None:
    ports, processes = (free_port(), free_port()), []
    try:
        for name, port in zip(("one", "two"), ports, strict=True):
            text = CONFIG.replace("sqlite:///t.db", f"sqlite:///{folder}/t.db")
            config = folder / f"{name}.yaml"
            config.write_text(text + f"http: {{listen: '127.0.0.1:{port}'}}\n", encoding="utf-8")
            with (folder / f"{name}.log").open("wb") as log:
                command = [sys.executable, "-m", "orchestrator", "-c", str(config), "control", "--name", name]
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=Path(__file__).parents[2]))
            heard = folder / f"{name}.log"
            until(lambda heard=heard: "HTTP listens" in heard.read_text(encoding="utf-8"))  # type: ignore[misc]
        assert [requested(port, "/healthz") for port in ports] == ["the loop turns\n"] * 2

        def agree() -> bool:
            """Both name the holder of the lease: the other one, where the first was starved for as long as it lasts."""
            answer = [json.loads(requested(port, "/api/status"))["leader"] for port in ports]
            lease, (first, second) = store.leader(CONTROLLER), answer
            if lease is None or first is None or first != second:
                return False
            return first["name"] in {"one", "two"} and first["holder"] == lease.holder

        with closing(open_store(f"sqlite:///{folder}/t.db")) as store:
            until(agree)
        for process in processes:
            process.terminate()
        assert [process.wait(120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
