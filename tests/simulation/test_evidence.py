"""Every way in which an operation can end leaves its evidence, and what that claims is checked again in the logs."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from orchestrator.decide.evidence.claims import SINK, Claim, Verdict, read, verdict_of
from orchestrator.decide.evidence.document import Facts
from orchestrator.decide.evidence.document import document as build
from orchestrator.facts.evidence.chain import check_chain
from orchestrator.facts.evidence.folder import write_once
from orchestrator.facts.evidence.keeping import MEASURED_WITHIN, keep_evidence
from orchestrator.facts.evidence.page import page
from orchestrator.facts.evidence.verification import verify, verify_places
from orchestrator.housekeeping import Housekeeping
from state.model.entities import Event, Operation, Phase
from state.model.evidence import Evidence
from state.model.pins import Pin
from state.settings.keys import EvidenceSettings
from state.store.sql.schema import pins
from streaming.cluster_log import ClusterLog
from streaming.errors import ClusterUndeclared
from tests.contract import samples
from tests.simulation.stores import force
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.test_crashes import SCENARIOS, carried_out
from tests.simulation.test_housekeeping import keeper, lead
from tests.simulation.test_outcome import BACK, by_time, moved, read_to_end
from tests.simulation.test_rewind import at
from tests.simulation.world import QUERY, START, World

ALIEN = "<script>alert('x')</script>&\"' \u202e"


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.operation.execute.PATIENCE", timedelta(seconds=4))


def leave(world: World, patience: timedelta = timedelta(0)) -> int:
    term = lead(world)
    logs = world.clusters.__getitem__
    return keep_evidence(world.store, logs, term=lambda: term, actor="controller:one", patience=patience)


def kept(world: World, operation: Operation) -> Evidence:
    found = world.store.evidence(operation.id)
    assert found is not None
    return found


def document(world: World, operation: Operation) -> dict[str, Any]:
    said = read(kept(world, operation))
    assert said is not None
    return said


def claims(world: World, operation: Operation) -> list[Claim]:
    return verify(kept(world, operation), world.store, world.clusters.__getitem__, lambda _: None)


def places(world: World, document: Mapping[str, Any]) -> dict[tuple[str, int | None], Claim]:
    """The claims of what a document says of partitions."""
    found = verify_places(document, {}, world.clusters.__getitem__, lambda _: None)
    return {(claim.name, claim.partition): claim for claim in found}


class Page(HTMLParser):
    """Which elements and attributes a page has, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attributes}

    def handle_data(self, data: str) -> None:
        self.text += data


# -- written ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_evidence_shows_how_an_operation_ended(name: str) -> None:
    scenario = SCENARIOS[name]
    world = scenario.world()
    parameters = {} if scenario.to_time_ms is None else at(scenario.to_time_ms)
    request = world.request(
        kind=scenario.kind, target=scenario.target, consents=scenario.consents, parameters=parameters
    )
    operation = carried_out(world, request)
    leave(world)
    said = document(world, operation)
    assert said["operation"] == {
        **said["operation"], "id": operation.id, "kind": scenario.kind.value, "from": operation.source,
        "to": operation.target, "epoch": operation.epoch, "outcome": operation.outcome,
        "sentence": operation.sentence,
    }  # fmt: skip
    assert (said["who"]["actor"], said["who"]["reason"]) == ("ann", "drill")
    assert said["checkpoint"]["from"] is not None
    assert said["moved"] == (operation.phase is Phase.SETTLED)
    assert (said["checkpoint"]["to"] is not None) >= said["moved"]
    assert [step["name"] for step in said["steps"]] == [step.name for step in world.store.steps(operation.id)]
    assert any(fence["proof"] for fence in said["fences"]) or "unproven" in scenario.world.__name__ or not said["moved"]
    lines = world.store.history(operation=operation.id)
    assert [line["text"] for line in said["history"]] == [line.text for line in lines if line.kind != "evidence"]
    assert said["versions"]["tideover"]
    assert said["versions"]["schema"] == world.store.schema
    assert operation.sentence in Page(page(kept(world, operation))).text
    assert verdict_of(claims(world, operation)) is not Verdict.DOES_NOT_HOLD


def test_an_operation_that_a_reconcile_closed_has_evidence_too() -> None:
    world = World()
    world.runner.answers = False
    operation = carried_out(world, world.request())
    assert operation.is_open
    assert leave(world) == 0, "an open one has none"
    (row,) = world.store.assignments()
    back = replace(row, epoch=row.epoch + 1)
    event = samples.event(kind="reconcile", query=QUERY, operation=None, text="put back")
    assert world.store.reconcile(back, from_epoch=row.epoch, event=event)
    assert leave(world) == 1
    said = document(world, operation)
    assert (said["operation"]["outcome"], said["operation"]["sentence"]) == ("failed", "put back")
    assert (said["moved"], said["plan"], said["partitions"]) == (False, None, [])
    assert [claim.name for claim in claims(world, operation)] == ["document", "chain"]


def test_it_waits_a_while_for_the_replay_to_be_counted() -> None:
    for is_read, replay in ((True, BACK + 1), (False, None)):
        world = by_time()
        operation = moved(world)
        assert leave(world, MEASURED_WITHIN) == 0, "the query has not read what west held"
        if is_read:
            read_to_end(world)
        else:
            world.clock.wait(MEASURED_WITHIN.total_seconds() + 1)
        assert leave(world, MEASURED_WITHIN) == 1
        rows = document(world, operation)["partitions"]
        assert [(row["replay_records"], row["measured_replay_records"]) for row in rows] == [(BACK + 1, replay)] * 2
        assert [(row["exposure_records"], row["measured_exposure_records"]) for row in rows] == [(10, 10)] * 2


def test_who_does_not_lead_writes_none() -> None:
    world = World()
    moved(world)
    lead(world)
    assert keeper(world, lambda: None).keep_evidence() == 0
    logs = world.clusters.__getitem__
    assert keep_evidence(world.store, logs, term=lambda: None, actor="x", patience=timedelta(0)) == 0
    assert len(world.store.without_evidence(limit=9)) == 1


def test_evidence_that_cannot_be_built_delays_no_other_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    first = moved(world)
    second = carried_out(world, world.request(target="east"))

    def fail_for_the_first(facts: Facts) -> dict[str, object]:
        if facts.operation.id == first.id:
            raise KeyError("a row that nobody foresaw")
        return build(facts)

    monkeypatch.setattr("orchestrator.facts.evidence.keeping.document", fail_for_the_first)
    with pytest.raises(KeyError):
        leave(world)
    assert [each.id for each in world.store.without_evidence(limit=9)] == [first.id]
    assert document(world, second)["sequence"] == 1


def test_evidence_that_has_to_wait_keeps_no_later_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    first = moved(world)
    second = carried_out(world, world.request(target="east"))
    monkeypatch.setattr("orchestrator.facts.evidence.keeping.DOCUMENTS_AT_ONCE", 1)
    monkeypatch.setattr("orchestrator.facts.evidence.keeping.is_read_back", lambda operation: operation.id != first.id)
    assert leave(world, patience=timedelta(hours=1)) == 1
    assert world.store.evidence(second.id) is not None
    assert [each.id for each in world.store.without_evidence(limit=9)] == [first.id]


def test_a_cluster_that_is_not_declared_any_more_does_not_keep_it_back() -> None:
    world = World()
    operation = moved(world)
    term = lead(world)

    def undeclared(name: str) -> ClusterLog:
        raise ClusterUndeclared(name)

    assert keep_evidence(world.store, undeclared, term=lambda: term, actor="x", patience=timedelta(0)) == 1
    assert document(world, operation)["partitions"][0]["measured_exposure_records"] is None


# -- its page --------------------------------------------------------------------------------------------------------
def test_a_page_escapes_everything_and_leads_nowhere() -> None:
    world = World()
    operation = moved(world)
    world.store.note(
        Event(
            sequence=None, at=START, kind=ALIEN, query=QUERY, operation=operation.id, epoch=2, actor=ALIEN, text=ALIEN
        )
    )  # fmt: skip
    leave(world)
    text = page(kept(world, operation))
    shown = Page(text)
    assert "<script" not in text
    assert not {"script", "link", "img", "iframe", "a", "form", "object", "base"} & shown.tags
    assert not {"href", "src", "onclick", "onload", "action"} & shown.names
    assert "http" not in text
    assert ALIEN in shown.text
    assert "prefers-color-scheme: dark" in text
    for part in ("Gates", "Seconds per phase", "Fence", "exposure, measured", kept(world, operation).sha256):
        assert part in shown.text


# -- housekeeping and its folder -------------------------------------------------------------------------------------
def with_folder(world: World, folder: Path) -> tuple[Housekeeping, int]:
    world.settings = world.settings.model_copy(update={"evidence": EvidenceSettings(folder=folder)})
    term = lead(world)
    return keeper(world, lambda: term), term


def test_housekeeping_keeps_it_and_writes_it_to_its_folder(tmp_path: Path) -> None:
    world = World()
    operation = moved(world)
    world.clock.wait(60)
    made, _ = with_folder(world, tmp_path / "new" / "folder")
    assert made.keep_evidence() == 1
    assert made.keep_evidence() == 0
    name = f"000001-{operation.id}"
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert [file.name for file in files] == [f"{name}.html", f"{name}.json"], "and no draft"
    assert hashlib.sha256(files[1].read_bytes()).hexdigest() == kept(world, operation).sha256


def test_a_file_that_was_not_written_is_written_by_the_next_leader(tmp_path: Path) -> None:
    world = World()
    operation = moved(world)
    leave(world)
    (tmp_path / f"000001-{operation.id}.html").write_text("mine")
    made, _ = with_folder(world, tmp_path)
    assert made.keep_evidence() == 0, "it is in the store"
    assert (tmp_path / f"000001-{operation.id}.json").read_text() == kept(world, operation).document
    assert (tmp_path / f"000001-{operation.id}.html").read_text() == "mine", "what is there stays"


def test_a_folder_that_cannot_be_written_is_logged_once(tmp_path: Path) -> None:
    world = World()
    operation = moved(world)
    world.clock.wait(60)
    (tmp_path / "file").touch()
    made, _ = with_folder(world, tmp_path / "file")
    with capture_logs() as lines:
        made.keep_evidence()
        made.keep_evidence()
    assert [line["event"] for line in lines] == [
        "evidence is in the store but cannot be written to its folder; tried again every 5 s"
    ]
    assert kept(world, operation).sequence == 1
    (tmp_path / "file").unlink()
    made.keep_evidence()
    assert len(list((tmp_path / "file").iterdir())) == 2


def test_a_file_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write_once(tmp_path / "a.json", "first")
    assert not write_once(tmp_path / "a.json", "second")
    assert (tmp_path / "a.json").read_text() == "first"
    with monkeypatch.context() as between:
        between.setattr(Path, "exists", lambda _: False)  # it was made right after a person looked
        assert not write_once(tmp_path / "a.json", "third")
    assert (tmp_path / "a.json").read_text() == "first"

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_once(tmp_path / "b.json", "text")
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


# -- checked again ---------------------------------------------------------------------------------------------------
def test_every_claim_of_a_move_holds_in_the_logs() -> None:
    for world in (World(), by_time()):
        operation = moved(world)
        leave(world)
        found = claims(world, operation)
        assert {claim.verdict for claim in found if claim.name != SINK} == {Verdict.HOLDS}
        assert [claim.verdict for claim in found if claim.name == SINK] == [Verdict.CANNOT_BE_CHECKED], "no table"
        assert [claim.name for claim in found] == [
            "document", "chain", SINK, *("resume-offset", "replay") * 2, *("exposure",) * 2
        ]  # fmt: skip


def test_a_wrong_resume_offset_is_found_to_the_record() -> None:
    world = World()
    operation = moved(world)
    leave(world)
    for late in (1, 7, 10):
        planted = document(world, operation)
        planted["partitions"][1]["target_offset"] += late
        found = places(world, planted)["resume-offset", 1]
        assert (found.verdict, found.expected, found.found) == (Verdict.DOES_NOT_HOLD, 133 + late, 133)
        assert found.text == f"{late} records before the resume offset, from 133 on, were skipped"
        assert places(world, planted)["resume-offset", 0].verdict is Verdict.HOLDS
    planted = document(world, operation)
    planted["partitions"][1]["target_offset"] = 143 + 8
    found = places(world, planted)["resume-offset", 1]
    assert (found.verdict, found.expected, found.found) == (Verdict.DOES_NOT_HOLD, 151, 143), "behind its end"
    for early in (1, 5):
        planted = document(world, operation)
        planted["partitions"][0]["target_offset"] -= early
        found = places(world, planted)["replay", 0]
        assert (found.verdict, found.expected, found.found) == (Verdict.DOES_NOT_HOLD, 0, early)


def test_a_wrong_forecast_is_found() -> None:
    world = World()
    operation = moved(world)
    leave(world)
    planted = document(world, operation)
    planted["partitions"][0]["exposure_records"] = 9
    planted["partitions"][1]["replay_records"] = 2
    found = places(world, planted)
    assert found["exposure", 0][3:6] == (Verdict.DOES_NOT_HOLD, 9, 10)
    assert found["replay", 1][3:6] == (Verdict.HOLDS, 2, 0), "a forecast is an upper bound"
    assert verdict_of(found.values()) is Verdict.DOES_NOT_HOLD


def test_a_claim_that_can_no_longer_be_checked_says_why() -> None:
    world = World()
    operation = moved(world)
    leave(world)
    west, east = world.clusters["west"], world.clusters["east"]
    east.reachable = False
    found = {claim.name: claim for claim in claims(world, operation)}
    assert found["exposure"].verdict is Verdict.CANNOT_BE_CHECKED
    assert found["exposure"].text.startswith("east does not answer: ")
    assert found["replay"].verdict is Verdict.HOLDS
    west.retain("orders", 0, 140)
    found_of = places(world, document(world, operation))
    for name in ("resume-offset", "replay"):
        assert found_of[name, 0].verdict is Verdict.CANNOT_BE_CHECKED
        assert found_of[name, 0].text == "retention has deleted the records before offset 140"
        assert found_of[name, 1].verdict is Verdict.HOLDS
    west.cut("orders", 120)
    assert "the topic was recreated" in places(world, document(world, operation))["replay", 1].text
    west.reachable = False
    found = {claim.name: claim for claim in claims(world, operation)}
    assert found["resume-offset"].text.startswith("west does not answer: ")
    assert verdict_of(found.values()) is Verdict.CANNOT_BE_CHECKED


def test_another_cluster_under_the_name_is_not_read() -> None:
    world = World()
    force(world.store, pins, Pin(cluster="west", id="one", pinned_at=START))
    operation = moved(world)
    leave(world)
    assert document(world, operation)["clusters"][1] == {"role": "to", "cluster": "west", "id": "one"}
    force(world.store, pins, Pin(cluster="west", id="two", pinned_at=START))
    requests = world.clusters["west"].requested
    found = claims(world, operation)
    assert {claim.text for claim in found[2:] if claim.name != SINK} == {
        "west is another cluster now: id two, it was one"
    }
    assert world.clusters["west"].requested == requests


# -- typed -----------------------------------------------------------------------------------------------------------
def test_show_op_and_verify_op_from_the_command_line(
    world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, shown = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    name = shown["id"]
    assert keys(shown["evidence"]) == said("`evidence` is `null`")
    assert shown["evidence"]["sequence"] == 1, "the verb led, and left it before it ended"
    assert f"sha256 {shown['evidence']['sha256']}; to get it: tideover show-op {name} --evidence" in run(
        capsys, "show-op", name
    )[1]  # fmt: skip
    for file in ("a.json", "a.html"):
        code, out, err = run(capsys, "show-op", name, "--evidence", str(tmp_path / file))
        assert (code, out) == (0, "")
        assert shown["evidence"]["sha256"] in err
    assert hashlib.sha256((tmp_path / "a.json").read_bytes()).hexdigest() == shown["evidence"]["sha256"]
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    code, out, _ = run(capsys, "show-op", name, "--evidence", "-")
    assert (code, json.loads(out)["operation"]["id"]) == (0, name)
    assert keys(json.loads(out)) == said("`show-op ID --evidence FILE`")
    assert run(capsys, "show-op", name, "--evidence", str(tmp_path / "a.json"))[0] == 2, "it overwrites nothing"
    assert run(capsys, "show-op", name, "--evidence", str(tmp_path / "a.pdf"))[0] == 2

    code, checked = run_json(capsys, "verify-op", name)
    assert (code, checked["verdict"]) == (0, "holds")
    assert keys(checked) == said("`verify-op ID`")
    assert keys(checked["claims"]) == said("Each of `claims`")
    assert run(capsys, "verify-op", name)[1].endswith("9 claims: 8 hold, 0 do not hold, 1 cannot be checked\n"), (
        "the sink"
    )
    code, chain = run_json(capsys, "verify-op", "--chain")
    assert (code, chain) == (0, {"verdict": "holds", "links": 1, "documents": 1, "flaws": []})
    assert keys(chain) == said("`verify-op --chain`")
    world.clusters["east"].reachable = False
    code, out, err = run(capsys, "verify-op", name)
    assert code == 3
    assert "cannot be checked:" in out
    assert "reading west: 0 of 2 partitions" in err


def test_list_and_show_print_what_is_away_and_what_the_moves_cost(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (at_home,) = run_json(capsys, "list")[1]
    assert (at_home["home"], at_home["away_since"]) == ("east", None)
    _, moved = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    (away,) = run_json(capsys, "list")[1]
    assert (away["cluster"], away["home"], away["away_since"]) == ("west", "east", moved["started_at"])
    assert moved["started_at"] in run(capsys, "list", "-o", "wide")[1]
    assert re.search(r"away\n.*\n *revenue .* [0-9]+s\n", run(capsys, "list")[1])
    (move,) = run_json(capsys, "show", "revenue")[1]["operations"]
    assert keys(move) == said("`operations` are the last five moves")
    assert (move["id"], move["from"], move["to"], move["outcome"]) == (moved["id"], "east", "west", "done")
    assert "last moves\n" in run(capsys, "show", "revenue")[1]


def test_evidence_that_was_changed_shows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    _, shown = run_json(capsys, "failover", "revenue", "--to", "west", "--yes")
    engines: Any = world.store
    with engines._engines.write.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER evidence_unchanged"))
        connection.execute(sa.text("UPDATE evidence SET document = replace(document, '133', '132')"))
    code, checked = run_json(capsys, "verify-op", shown["id"])
    assert (code, checked["verdict"]) == (1, "does not hold")
    assert checked["claims"][0]["text"] == "the document was changed: its hash is another one"
    assert {claim["name"] for claim in checked["claims"] if claim["verdict"] == "does not hold"} >= {"replay"}
    code, chain = run_json(capsys, "verify-op", "--chain")
    assert (code, keys(chain["flaws"])) == (1, said("Each of `flaws`"))
    assert run(capsys, "verify-op", "--chain")[1].endswith("does not hold: 1 link, 1 document, 1 flaw\n")


def test_verify_op_without_evidence_says_what_to_wait_for(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = run_json(capsys, "verify-op", "nothing")
    assert (code, answer["error"]["kind"]) == (2, "unknown-name")
    term = lead(world)
    for name, outcome in (("op-1", None), ("op-2", "failed")):
        made = samples.operation(
            id=name, query=name, plan=None, outcome=outcome, ended_at=None if outcome is None else START
        )
        world.store.record(made, term=term)
        code, answer = run_json(capsys, "verify-op", name)
        assert (code, answer["error"]["kind"]) == (3, "no-evidence")
        assert answer["error"]["hint"]
        assert run(capsys, "show-op", name, "--evidence", "-")[0] == 3
    assert "evidence  none yet" in run(capsys, "show-op", "op-2")[1]
    assert run(capsys, "verify-op")[0] == run(capsys, "verify-op", "x", "--chain")[0] == 2
    assert check_chain(world.store)[0].links == 0
