"""``release`` does what is right when the question was answered, not when it was put."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from orchestrator.cli.act import release as module
from orchestrator.cli.app import main
from state.store.sql.migrate import open_store
from streaming.spark.external.start_notes import StartNotes
from tests.checkpoints import CheckpointFolder
from tests.contract.samples import runner
from tests.served import ATTACHED
from tests.unit.streaming.spark.test_handback import FILES, LATER, PLAIN, lines, moved


class Shop:
    """An application that ran its query on west, and has ended."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = ATTACHED.replace("/cp/revenue", str(folder / "cp")).replace("t.db", str(folder / "t.db"))
        self.config = folder / "tideover.yaml"
        self.config.write_text(text, encoding="utf-8")
        moved_row = moved(folder / "cp")  # its mapping counts, the store takes no first row of a later epoch
        self.row = replace(moved_row, query="revenue", epoch=1, placed_epoch=1, operation=None)
        self.store = open_store(f"sqlite:///{folder / 't.db'}")
        self.store.adopt(self.row)
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(module, "require_person", lambda **_: None)

    def release(self, before_the_answer: Callable[[], object]) -> int:
        self.monkeypatch.setattr(module, "confirm", lambda _: before_the_answer())
        return main(["-c", str(self.config), "release", "revenue"])

    def run_batch(self) -> None:
        CheckpointFolder(Path(self.row.checkpoint)).commit(3, {**LATER, "@west": {"epoch": 2}})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


def test_entries_of_a_run_during_the_question_are_released_too(shop: Shop) -> None:
    assert shop.release(shop.run_batch) == 0
    assert lines(shop.row) == {**PLAIN, 3: LATER}
    (event,) = [each for each in shop.store.history(limit=10) if each.kind == "release"]
    assert event.detail["entries"] == [1, 2, 3]


def test_a_run_that_began_during_the_question_stops_the_release(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    before = lines(shop.row)
    code = shop.release(lambda: shop.store.register(runner(runner="a")))
    assert (code, "a may still run" in capsys.readouterr().err) == (1, True)
    assert (lines(shop.row), [each.kind for each in shop.store.history(limit=10)]) == (before, [])
    assert {"_tideover_mappings", "_tideover_epochs"} <= {each.name for each in Path(shop.row.checkpoint).iterdir()}


def test_a_run_that_begins_as_the_release_does_leaves_all_as_it_was(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, before = module._Leaving.begin, lines(shop.row)

    def beside(*args: object) -> None:
        shop.run_batch()
        begin(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module._Leaving, "begin", beside)
    assert (shop.release(lambda: None), "has changed since" in capsys.readouterr().err) == (1, True)
    assert lines(shop.row) == {**before, 3: {**LATER, "@west": {"epoch": 2}}}
    monkeypatch.setattr(module._Leaving, "begin", begin)
    assert shop.release(lambda: None) == 0
    assert lines(shop.row) == {**PLAIN, 3: LATER}


@pytest.mark.parametrize(
    ("code", "why"),
    [(0, "it runs, as its status says"), (1, "status ended with code 1, which is neither 0 (it runs) nor 3")],
)
def test_an_application_that_may_run_without_its_runner_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, why: str
) -> None:
    shop = Shop(tmp_path, monkeypatch)
    words = f'application: {{start: [echo, "{{bootstrap}}"], stop: ["true"], status: [bash, -c, "exit {code}"]}}'
    text = shop.config.read_text(encoding="utf-8")
    shop.config.write_text(text.replace("attach: a", words + "\n    runners: [a]"), encoding="utf-8")
    before = lines(shop.row)
    assert main(["-c", str(shop.config), "release", "revenue", "--yes"]) == 1
    assert f"nothing proves that the application of revenue has ended: {why}" in capsys.readouterr().err
    assert lines(shop.row) == before
    shop.config.write_text(shop.config.read_text(encoding="utf-8").replace(f"exit {code}", "exit 3"), encoding="utf-8")
    notes = StartNotes(FILES, shop.row.checkpoint, lambda: datetime.now(UTC))
    notes.begin(300.0)
    assert main(["-c", str(shop.config), "release", "revenue", "--yes"]) == 1
    assert "a start was begun and not seen to run" in capsys.readouterr().err
    notes.settle()
    assert main(["-c", str(shop.config), "release", "revenue", "--yes"]) == 0
    assert lines(shop.row) == PLAIN


def test_a_start_is_noted_beside_the_first_query_of_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No query of it is released while that start may take effect."""
    shop = Shop(tmp_path, monkeypatch)
    known = yaml.safe_load(shop.config.read_text(encoding="utf-8"))
    own = {key: value for key, value in known["queries"]["revenue"].items() if key != "attach"}
    own |= {"application": "shop", "runners": ["a"]}
    known["queries"] = {"first": own | {"checkpoint": str(tmp_path / "first")}, "revenue": own}
    known["applications"] = {
        "shop": {"start": ["echo", "{bootstrap}"], "stop": ["true"], "status": ["bash", "-c", "exit 3"]}
    }
    shop.config.write_text(yaml.safe_dump(known, sort_keys=False), encoding="utf-8")
    before = lines(shop.row)
    notes = StartNotes(FILES, str(tmp_path / "first"), lambda: datetime.now(UTC))
    notes.begin(300.0)
    assert main(["-c", str(shop.config), "release", "revenue", "--yes"]) == 1
    assert "a start was begun and not seen to run" in capsys.readouterr().err
    assert lines(shop.row) == before
    notes.settle()
    assert main(["-c", str(shop.config), "release", "revenue", "--yes"]) == 0


def test_nothing_is_released_where_no_file_is_replaced_in_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(tmp_path, monkeypatch)
    lake = replace(shop.row, query="revenue", checkpoint="abfss://box@shop.dfs.core.windows.net/cp")
    monkeypatch.setattr(module, "_row", lambda *_: lake)
    assert main(["-c", str(shop.config), "release", "revenue", "--dry-run"]) == 2
    assert "is on abfss, where no file is replaced in one step" in capsys.readouterr().err
