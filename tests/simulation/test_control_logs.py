"""What a controller says on stderr: the history in the same words, and for programs nothing but JSON."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from orchestrator.history_log import HistoryLog, is_grave
from orchestrator.lease import Leadership
from orchestrator.operation.execute import Executor
from orchestrator.operation.requests import hold_detail
from state.errors import StoreUnavailable
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from streaming.logging_setup import _report_end_of_thread
from streaming.pulse import PULSE
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.simulation.conftest import CONFIG
from tests.simulation.stores import back_up
from tests.simulation.test_work import scheduler, wish
from tests.simulation.world import World
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
WAIT = 120.0
KEPT = timedelta(days=36_500)
MOVING = """
  clicks:
    pipeline: examples.orders:revenue
    sources: {orders: {topics: [clicks]}}
    clusters: [east, west]
    runners: [a, b]
    checkpoint: /cp/clicks
"""


def test_each_event_is_logged_once_with_operation_and_epoch() -> None:
    store = MemoryStore(lambda: datetime.now(UTC))
    store.note(samples.event(text="before"))
    chronicle = HistoryLog(store, kept=KEPT)
    with capture_logs() as lines:
        assert chronicle.write_news() == 0
        store.note(samples.event(text="revenue is held"))
        store.note(samples.event(kind="pause", query=None, operation=None, epoch=None, text="all is paused"))
        assert chronicle.write_news() == 2
        assert chronicle.write_news() == 0
    assert [line["event"] for line in lines] == ["revenue is held", "all is paused"]
    assert (lines[0]["operation"], lines[0]["epoch"], lines[0]["query"]) == ("op-1", 2, "revenue")
    assert {"operation", "epoch", "query"}.isdisjoint(lines[1])


def test_a_history_that_was_put_back_is_followed_from_where_it_ends_now() -> None:
    store = MemoryStore(lambda: datetime.now(UTC))
    chronicle = HistoryLog(store, kept=KEPT)
    chronicle.write_news()
    store.note(samples.event(text="one"))
    put_back = back_up(store)
    store.note(samples.event(text="two"))
    with capture_logs() as lines:
        assert chronicle.write_news() == 2
        put_back()
        chronicle.write_news()
        store.note(samples.event(text="reconciled"))
        chronicle.write_news()
    assert [line["event"] for line in lines] == [
        "one", "two", "the store was restored from an older backup: lines of its history are lost", "reconciled",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "detail", "grave"),
    [
        ("verdict", {"verdict": "UP"}, False),
        ("verdict", {"verdict": "DOWN"}, True),
        ("readiness", {"ready": True}, False),
        ("readiness", {"ready": None}, True),
        ("not-moved", {}, True),
        ("resolve", {}, False),
    ],
)
def test_events_that_need_a_person_are_warnings(kind: str, detail: dict[str, Any], grave: bool) -> None:
    assert is_grave(samples.event(kind=kind, detail=detail)) is grave


def test_a_history_that_cannot_be_read_is_read_later() -> None:
    store = MemoryStore(lambda: datetime.now(UTC))
    troubles = [StoreUnavailable("locked")] * 2

    class Away:
        def __getattr__(self, name: str) -> Any:
            if troubles:
                raise troubles.pop()
            return getattr(store, name)

    chronicle = HistoryLog(Away(), kept=KEPT)
    with capture_logs() as lines:
        chronicle.begin()
        deadline = time.monotonic() + WAIT
        while not lines and time.monotonic() < deadline:
            store.note(samples.event())
            time.sleep(0.05)
        store.note(samples.event(text="the last word"))
        chronicle.close()
    assert lines[-1]["event"] == "the last word"


def control(folder: Path, *arguments: str, log: Path, more: str = "") -> "subprocess.Popen[bytes]":
    (folder / "tideover.yaml").write_text(CONFIG + MOVING + more, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), PULSE: str(folder / "pulse")}
    with log.open("wb") as opened:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "control", *arguments],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=opened,
        )  # fmt: skip


def begin_failover(store: ControllerStore) -> None:
    """A failover of ``clicks`` that the leader is to drive from its fence on."""
    store.adopt(samples.assignment(query="clicks", checkpoint="/cp/clicks"))
    lease = store.leader("controller")
    assert lease is not None
    now = store.now()
    held = samples.step(ended_at=now, started_at=now, outcome="done", detail=hold_detail(2, None))
    operation = samples.operation(query="clicks", started_at=now, consents=())
    event = samples.event(query="clicks", kind="hold", at=now)
    assert store.hold(operation, from_epoch=1, term=lease.term, step=held, event=event) is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_controller_logs_json_keeps_house_and_ends_cleanly(folder: Path, number: signal.Signals) -> None:
    log = folder / "log"
    store = open_store(f"sqlite:///{folder}/t.db")
    process = control(folder, "--name", "one", "--log", "json", log=log)
    try:
        until(lambda: any(event.kind == "verdict" for event in store.history()))
        until(lambda: bool(store.readiness()))
        begin_failover(store)  # not before: what samples readiness keeps still while something moves
        until(lambda: len(store.history(operation="op-1")) > 1)
        until((folder / "pulse").exists)  # its loop turns
        process.send_signal(number)
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert all({"event", "level", "timestamp"} <= set(line) for line in lines)
    said = {line["event"]: line for line in lines}
    for event in store.history():
        assert said[event.text]["kind"] == event.kind
    of_operation = [said[event.text] for event in store.history(operation="op-1")]
    assert len(of_operation) > 1
    assert {(line["operation"], line["epoch"], line["query"]) for line in of_operation} == {("op-1", 2, "clicks")}
    assert [line for line in lines if "op-1" in json.dumps(line) and line.get("epoch") != 2] == []
    assert "controller is down" in said
    lease = store.leader("controller")
    assert lease is not None
    assert lease.expires_at <= store.now()
    store.close()


def test_a_controller_logs_for_people_by_default(folder: Path) -> None:
    log = folder / "log"
    process = control(folder, log=log)
    try:
        until(lambda: "controller is up" in log.read_text(encoding="utf-8"))
        process.terminate()
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
    said = log.read_text(encoding="utf-8")
    assert "[info     ] controller is down" in said


def test_a_defect_that_ends_a_driver_names_the_operation_and_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: Any) -> float:
        raise ZeroDivisionError("by nobody")

    monkeypatch.setattr(Executor, "_tick", broken)
    monkeypatch.setattr(threading, "excepthook", _report_end_of_thread)
    world = World()
    (request,) = wish(world, "revenue")
    driven = scheduler(world)
    assert driven.lead.take()
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        driven.take()
        for driver in driven._drivers.values():
            driver.join(WAIT)
        driven.close()
    (line,) = lines
    assert (line["event"], line["operation"], line["epoch"]) == ("an unexpected error ended a thread", request.id, 2)


def test_ending_while_the_store_is_away_logs_no_line_without_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease is due before the operation has been read, and its epoch is not known yet."""

    def away(_: Leadership) -> int:
        raise StoreUnavailable("the store is locked")

    world = World()
    (request,) = wish(world, "revenue")
    first = scheduler(world)
    assert first.lead.take()
    first.going_on = lambda: False
    first.take()
    first.close()
    monkeypatch.setattr(Leadership, "term", property(away))
    second = scheduler(world)
    second.going_on = lambda: False
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        second.resume()
        second.close()
    assert {name: str(error) for name, error in second.failures.items()} == {request.id: "the store is locked"}
    assert [line for line in lines if line.get("epoch") != 2] == []


LIBRARIES = """
import logging, threading
from streaming.logging_setup import set_up_logs
set_up_logs("json")
logging.getLogger("some.library").warning("a %s thing", "strange")
logging.getLogger("kafka.conn").error("a connection was dropped")
def fail(): raise ValueError("ouch")
thread = threading.Thread(target=fail, name="drive x1")
thread.start(); thread.join()
"""


def test_logs_of_libraries_and_errors_that_end_a_thread_are_json() -> None:
    command = [sys.executable, "-c", LIBRARIES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=WAIT)
    library, defect = (json.loads(line) for line in done.stderr.splitlines())
    assert (library["event"], library["level"], library["logger"]) == ("a strange thing", "warning", "some.library")
    assert (defect["event"], defect["level"], defect["thread"]) == (
        "an unexpected error ended a thread",
        "error",
        "drive x1",
    )
    assert "ValueError: ouch" in defect["exception"]
    assert done.stdout == ""
