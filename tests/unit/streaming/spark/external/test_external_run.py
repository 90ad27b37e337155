"""A run of which only commands are known: quiet when its status says so, and stopped again until it is."""

import threading
from datetime import datetime
from typing import cast

import pytest

from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import CommandFailed
from streaming.spark.external import application_state
from streaming.spark.external.application_commands import ApplicationCommands, Status
from streaming.spark.external.application_state import ApplicationState
from streaming.spark.external.external_run import ExternalRun
from streaming.spark.external.start_notes import StartNotes
from tests.waiting import until

RUNS, ENDED, UNKNOWN = Status(True, ""), Status(False, ""), Status(None, "status ended with code 1")


class Commands:
    """Answers with the status of a test, and ends at the so-manieth stop."""

    def __init__(self, status: Status, stops: int = 1) -> None:
        self.values = {"query": "q"}
        self.now = status
        self.stops = 0
        self.needed = stops
        self.lock = threading.Lock()

    def status(self) -> Status:
        return self.now

    def stop(self) -> None:
        self.stops += 1
        if self.stops < self.needed:
            raise CommandFailed("stop ended with code 1")
        self.now = ENDED


def run_of(commands: Commands) -> ExternalRun:
    notes = StartNotes(LocalFiles(), "/nowhere", datetime.now)
    return ExternalRun(ApplicationState(cast("ApplicationCommands", commands), notes))


@pytest.mark.parametrize(
    ("status", "unrest"), [(RUNS, "its application still runs"), (ENDED, None), (UNKNOWN, "status ended with code 1")]
)
def test_a_run_is_quiet_only_when_its_status_says_so(status: Status, unrest: str | None) -> None:
    assert run_of(Commands(status)).unrest() == unrest


@pytest.mark.parametrize(("status", "active"), [(RUNS, True), (ENDED, False), (UNKNOWN, True)])
def test_a_run_of_unknown_status_counts_as_running(
    monkeypatch: pytest.MonkeyPatch, status: Status, active: bool
) -> None:
    monkeypatch.setattr(application_state, "STATUS_SECONDS", 0.0)
    run = run_of(Commands(status))
    assert run.is_active == active
    assert (run.error() is None) == active


def test_a_stop_that_fails_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application_state, "STOP_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(application_state, "LOOK_SECONDS", 0.01)
    commands = Commands(RUNS, stops=3)
    run = run_of(commands)
    run.begin_stop()
    run.begin_stop()
    until(lambda: run.unrest() is None)
    assert commands.stops == 3


def test_a_run_that_has_ended_is_not_stopped() -> None:
    commands = Commands(ENDED)
    run = run_of(commands)
    run._stop()
    assert run.unrest() is None
    assert commands.stops == 0


def test_a_run_that_was_seen_to_end_stops_none_that_is_started_later() -> None:
    commands = Commands(ENDED)
    run = run_of(commands)
    assert run.unrest() is None
    commands.now = RUNS
    run.begin_stop()
    run._stop()
    assert (commands.stops, run.unrest(), run.is_active) == (0, None, False)
    assert run.error() == "the application has ended, and its own log says why"
