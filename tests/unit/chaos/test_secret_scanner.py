"""What is looked for in the files of a container: by text that its Python is handed."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import secret_scanner
from chaos.leak_check import secrets_of
from chaos.secret_scanner import gather, look
from lab import cli

PASSWORD = "moat-and-drawbridge-51b7"
SECRETS = {"west/tideover.password": PASSWORD, "east/tideover.key": "MIGHAgEAportcullis"}
SCRIPT = Path(secret_scanner.__file__).read_text(encoding="utf-8")


def sift(*words: str, given: str = "") -> Any:
    """As a container's Python is called."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], input=given, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_every_secret_of_the_lab_is_gathered_and_found_in_every_file(tmp_path: Path) -> None:
    assert cli.main(("secrets", "--dir", str(tmp_path), "east=mtls:east-1", "west=scram:west-1")) == 0
    folder = tmp_path / "secrets"
    secrets = secrets_of(sift("gather", str(folder), ".password", ".key"))
    users = ("admin", "replicator", "tideover")
    assert {*secrets} == {
        *(f"west/{user}.password" for user in users), *(f"east/{user}.key" for user in users),
        *(f"{cluster}/{name}.key" for cluster in ("east", "west") for name in ("ca", "broker")),
    }  # fmt: skip
    assert len({*secrets.values()}) == len(secrets)
    found = sift("look", str(folder), given=json.dumps(secrets))["hits"]
    assert {(f"{folder}/{name}", name) for name in secrets} <= {(path, name) for path, name in found}
    assert [f"{folder}/replicator.properties", "west/replicator.password"] in found


def test_a_secret_is_found_where_two_blocks_meet_and_at_any_depth(tmp_path: Path) -> None:
    deep = tmp_path / "checkpoints" / "q" / "offsets"
    deep.mkdir(parents=True)
    for number in range(40):
        (deep / str(number)).write_text("x" * number + PASSWORD + "x" * 40)
    (deep / "clean").write_text("x" * 200)
    found = look([tmp_path], SECRETS, block=32)
    assert sorted(found["hits"]) == sorted([str(deep / str(number)), "west/tideover.password"] for number in range(40))
    assert len(found["read"]) == 41


def test_a_file_that_cannot_be_read_is_named_and_one_that_is_gone_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed", "gone", "open"):
        (tmp_path / name).write_text(PASSWORD)
    monkeypatch.setattr(secret_scanner, "_names_in", refuse({"closed": PermissionError, "gone": FileNotFoundError}))
    assert look([tmp_path], SECRETS) == {
        "read": [str(tmp_path / "open")],
        "unread": [str(tmp_path / "closed")],
        "hits": [[str(tmp_path / "open"), "west/tideover.password"]],
    }


def refuse(errors: dict[str, type[OSError]]) -> Callable[[Path, dict[str, bytes], int], list[str]]:
    real = secret_scanner._names_in

    def names_in(path: Path, wanted: dict[str, bytes], block: int) -> list[str]:
        if error := errors.get(path.name):
            raise error(str(path))
        return real(path, wanted, block)

    return names_in


def test_only_files_of_the_named_kinds_are_gathered(tmp_path: Path) -> None:
    (tmp_path / "west").mkdir()
    for name in ("tideover.password", "tideover.pem", "password"):
        (tmp_path / "west" / name).write_text(name)
    assert gather(tmp_path, [".password"]) == {"west/tideover.password": "tideover.password"}
