"""``store status`` and ``store upgrade``; every other verb refuses a schema that is not its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from state.store.sql.engine import make_engines
from state.store.sql.migrate import upgrade_store
from state.store.sql.schema import VERSION_TABLE
from tests.next_schema import NEXT, STEP, use_next_schema
from tests.simulation.test_cli import Terminal, run, run_json
from tests.simulation.test_cli_programs import keys, said


@pytest.fixture
def old(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    """A store of the first version, met by a program of the next one."""
    upgrade_store(f"sqlite:///{folder}/t.db")
    use_next_schema(monkeypatch)
    engines = make_engines(f"sqlite:///{folder}/t.db")
    yield engines.write
    engines.dispose()


def version(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar())


@pytest.mark.parametrize(
    "verb",
    [
        ("list",), ("show", "revenue"), ("failover", "revenue", "--to", "west", "--yes"), ("check", "revenue"),
        ("pause", "revenue"), ("history",), ("reconcile", "revenue"), ("control",), ("run", "--name", "a"),
    ],
)  # fmt: skip
def test_a_verb_leaves_an_older_store_as_it_is(
    old: sa.Engine, capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, *verb)
    assert code == 2
    assert f"the store has schema 0001, and this version of Tideover needs {NEXT}" in err
    assert "tideover store upgrade" in err
    assert version(old) == "0001"


def test_a_verb_refuses_a_newer_store(old: sa.Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with old.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    for verb in (("list",), ("store", "status"), ("store", "upgrade", "--yes")):
        code, error = run_json(capsys, *verb)
        assert code == 2
        assert isinstance(error, dict)
        assert error["error"]["kind"] == "schema-newer"
        assert "schema 9999" in error["error"]["text"]
    assert version(old) == "9999"


def test_status_shows_what_an_upgrade_would_do_and_does_nothing(
    old: sa.Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = run_json(capsys, "store", "status")
    assert code == 2
    assert isinstance(answer, dict)
    assert keys(answer) == said("`store status` and `store upgrade`")
    assert (answer["found"], answer["known"], answer["current"], answer["copy"]) == ("0001", NEXT, False, None)
    assert answer["steps"] == [STEP]
    assert version(old) == "0001"


def test_an_upgrade_is_rehearsed_then_done_after_a_copy(
    old: sa.Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "store", "upgrade", "--dry-run")
    assert code == 0
    assert "dry run rolled back" in err
    assert version(old) == "0001"
    code, answer = run_json(capsys, "store", "upgrade", "--yes")
    assert code == 0
    assert isinstance(answer, dict)
    assert (answer["found"], answer["current"]) == (NEXT, True)
    assert answer["copy"].endswith("t.db.schema-0001")
    copied = sa.create_engine(f"sqlite:///{folder}/t.db.schema-0001")
    assert (version(copied), version(old)) == ("0001", NEXT)
    copied.dispose()
    code, _, err = run(capsys, "store", "upgrade", "--yes")
    assert code == 0
    assert f"already has schema {NEXT}: nothing done" in err
    assert run(capsys, "list")[0] == 0


def test_an_upgrade_waits_for_a_yes(
    old: sa.Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(capsys, "store", "upgrade")
    assert code == 2
    assert "without a terminal, this command needs --yes" in err
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = run(capsys, "store", "upgrade")
    assert code == 1
    assert "do you have a backup?" in err
    assert version(old) == "0001"
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run(capsys, "store", "upgrade")[0] == 0
    assert version(old) == NEXT


def test_a_new_file_becomes_a_store_without_a_word(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "store", "status")[0] == 2
    assert run(capsys, "list")[0] == 0
    assert run_json(capsys, "store", "status")[0] == 0
