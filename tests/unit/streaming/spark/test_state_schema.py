"""Whether the state of a pipeline as it is now is that of the checkpoint in use."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.state_schema import misfit, pinned
from tests.checkpoints import CheckpointFolder

FILES = LocalFiles()


def struct(*types: object, nullable: bool = True, prefix: str = "f") -> dict[str, Any]:
    fields = [
        {"name": f"{prefix}{number}", "type": each, "nullable": nullable, "metadata": {}}
        for number, each in enumerate(types)
    ]
    return {"type": "struct", "fields": fields}


def schema(key: object, value: object) -> str:
    """As Spark writes it: a version, then each schema behind its length."""
    return f"\x00\x02v2\x00\x00{json.dumps(key)}\x00\x00{json.dumps(value)}"


def checkpoint(folder: Path, *, names: Sequence[str] = ("stateStoreSave",), of: str = "", commits: int = 1) -> str:
    known = CheckpointFolder(folder, stores=["delta"] * len(names), names=names)
    for batch in range(commits):
        known.commit(batch)
    for operator in range(len(names)):
        known.write(f"state/{operator}/0/_metadata/schema", of or schema(struct("string"), struct("long")))
    return str(folder)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (schema(struct("string"), struct("long")), None),
        (schema(struct("string", prefix="renamed"), struct("long", nullable=False)), None),
        ("v3 of another kind", None),
        (
            schema(struct("binary"), struct("long")),
            "key of the state of stateStoreSave is (binary) in the pipeline, and (string)",
        ),
        (
            schema(struct("string"), struct({"type": "array", "elementType": struct("long"), "containsNull": True})),
            "value of the state of stateStoreSave is (array of (long)) in the pipeline, and (long)",
        ),
    ],
)
def test_key_and_value_of_the_state_are_compared_by_their_types(tmp_path: Path, now: str, said: str | None) -> None:
    found = misfit(FILES, checkpoint(tmp_path / "used"), checkpoint(tmp_path / "new", of=now))
    assert found == (said and f"the {said} in the checkpoint")


def test_an_operator_more_or_less_is_named(tmp_path: Path) -> None:
    used = checkpoint(tmp_path / "used")
    new = checkpoint(tmp_path / "new", names=("stateStoreSave", "dedupe"))
    assert misfit(FILES, used, new) == (
        "the pipeline keeps state in stateStoreSave, dedupe, and the checkpoint has state of stateStoreSave"
    )
    none = checkpoint(tmp_path / "none", names=())
    assert misfit(FILES, used, none) == (
        "the pipeline keeps state in no operator, and the checkpoint has state of stateStoreSave"
    )


def test_nothing_is_said_where_no_batch_was_committed(tmp_path: Path) -> None:
    used, new = checkpoint(tmp_path / "used"), checkpoint(tmp_path / "new", names=(), commits=0)
    assert misfit(FILES, used, new) is None
    assert misfit(FILES, new, used) is None
    assert misfit(FILES, str(tmp_path / "nowhere"), used) is None


def test_the_settings_that_a_checkpoint_pins_are_those_of_its_last_batch(tmp_path: Path) -> None:
    assert set(pinned(FILES, checkpoint(tmp_path / "used"))) == {"spark.sql.streaming.stateStore.providerClass"}
    assert pinned(FILES, str(tmp_path / "nowhere")) == {}
