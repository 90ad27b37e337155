"""``reconcile --consent repeats``: a query starts from files that are older than what its run wrote."""

import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.operation.reconcile import accept_files, contradicted_of
from state.messages import CONTRADICTED, Failure
from state.model.entities import IntentKind, IntentState, RunState, SeenCheckpoint
from state.settings.keys import Sink
from state.store.sql.schema import assignments, intents, operations
from streaming.spark.known_files import known_files
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.simulation.test_cli import Terminal, run, run_json
from tests.simulation.world import World

WAIT = 60.0

WHY = "/cp/revenue: its run of epoch 1 reported that batch 7 is committed, but the newest is commits/6"
SEEN = SeenCheckpoint("/cp/revenue", 1, 7, 7, None, False)


@pytest.fixture
def refused(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The runner reports why it does not start the query, and reports nothing else any more."""
    silenced = threading.Event()
    monkeypatch.setattr(world.runner, "live", silenced.set)
    assert silenced.wait(WAIT), "the runner reports once more at most, and before this"
    fact = samples.fact(
        checkpoint="/cp/revenue", instance="one", mapping=None, state=RunState.FAILED, error=WHY, contradicted=WHY,
        seen=SEEN,
    )  # fmt: skip
    assert world.store.report_query(fact)
    return world


def test_without_consent_the_command_says_what_is_missing(refused: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "reconcile", "revenue")
    assert code == 1
    assert f"{WHY}" in err
    assert "tideover reconcile revenue --consent repeats" in err
    row = refused.store.assignment("revenue")
    assert row is not None
    assert row.epoch == 1


def test_check_names_the_missing_file(refused: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "revenue")
    assert code == 1
    assert "checkpoint-whole" in out
    assert WHY in out


def test_a_consent_lets_the_query_start_from_the_files_that_are_there(
    refused: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = run(capsys, "reconcile", "revenue", "--consent", "repeats")
    assert (code, "give its sink these batches again?" in err) == (1, True)
    before = refused.store.assignment("revenue")
    assert before is not None
    code, rows = run_json(capsys, "reconcile", "revenue", "--consent", "repeats", "--yes", "--reason", "of Monday")
    assert code == 0
    assert isinstance(rows, list)
    assert [row["side"] for row in rows] == ["store", "runner", "now"]
    now = refused.store.assignment("revenue")
    assert now is not None
    assert replace(now, epoch=before.epoch, changed_at=before.changed_at) == replace(before, operation=None)
    assert now.epoch == 2
    assert known_files(now, SEEN, None) == (), "what the run of before reported counts no more"
    assert refused.store.query_facts(query="revenue")[0].seen is None, "nor after the next move has taken the row"
    events = refused.store.history(query="revenue")[-1]
    assert (events.kind, events.text.endswith("of Monday"), WHY in events.text) == ("reconcile", True, True)
    assert contradicted_of(refused.store, "revenue") is None


def test_a_sink_that_drops_batches_by_id_needs_the_consent_to_loss(
    refused: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Batch 7 of the new run may hold other records than the one that the sink has."""
    assert refused.settings.queries["revenue"].sink is not Sink.BATCH_ID
    with (folder / "tideover.yaml").open("a", encoding="utf-8") as config:
        config.write("    sink: batch-id\n")
    code, _, err = run(capsys, "reconcile", "revenue", "--consent", "repeats", "--yes")
    assert code == 1
    assert "Its sink drops a batch whose id it has" in err
    assert "tideover reconcile revenue --consent loss" in err
    assert run(capsys, "reconcile", "revenue", "--consent", "loss", "--yes")[0] == 0


def test_a_query_that_changed_since_it_was_shown_is_not_accepted(refused: World) -> None:
    found = contradicted_of(refused.store, "revenue")
    assert found is not None
    accept_files(refused.store, found, actor="ann@desk", reason="")
    with pytest.raises(Exception, match="changed while you looked"):
        accept_files(refused.store, found, actor="bob@desk", reason="")


def test_files_that_no_consent_can_help_are_named_with_the_way_out(
    refused: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The query was accepted before, and its runner still finds batch logs without metadata."""
    assert run(capsys, "reconcile", "revenue", "--consent", "repeats", "--yes")[0] == 0
    why = "/cp/revenue: it has batch logs, but no file metadata"
    late = samples.fact(
        checkpoint="/cp/revenue", instance="one", mapping=None, state=RunState.FAILED, epoch=2, contradicted=why,
        seen=None,
    )  # fmt: skip
    assert refused.store.report_query(replace(late, state=RunState.STARTING))
    assert refused.store.report_query(late)
    code, _, err = run(capsys, "reconcile", "revenue", "--consent", "repeats", "--yes")
    assert code == 1
    assert f"{why}: what is left there cannot be continued from" in err
    assert "empty /cp/revenue: revenue then begins at its starting offsets" in err


def test_files_that_a_fence_refused_are_accepted_without_their_runner() -> None:
    """The host is lost with the checkpoint, and a copy was put in its place: only the other runner has looked at it."""
    store = MemoryStore(lambda: samples.AT)
    row = samples.assignment(epoch=3, mapping=None, operation="op")
    store.force(assignments, row)
    assert store.report_query(samples.fact(epoch=1, mapping=None, seen=SEEN))
    assert contradicted_of(store, "revenue") is None
    store.force(operations, samples.operation(id="op", query="revenue", epoch=2, outcome="refused"))
    lacking = Failure(kind=CONTRADICTED, text=WHY, hint="restore the files").as_json()
    fence = samples.intent(
        id="op/fence", operation="op", name="fence", kind=IntentKind.FENCE, query="revenue", state=IntentState.FAILED,
        result=lacking,
    )  # fmt: skip
    store.force(intents, fence)
    found = contradicted_of(store, "revenue")
    assert found is not None
    assert (found.why, found.was_accepted) == (WHY, False)
    now = accept_files(store, found, actor="ann@desk", reason="")
    assert (now.epoch, now.operation) == (4, None)
    assert store.query_facts(query="revenue")[0].seen is None
    assert contradicted_of(store, "revenue") is None
