"""Tests of ``tests/real`` that share a world: one that fails takes its world with it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import pytest

pytestmark = [{marks}]
made = []

@pytest.fixture(scope="module")
def world():
    made.append("world")
    yield
    made.append("its end")

def test_first(world):
    assert made == ["world"]

def test_second(world):
    raise RuntimeError("half done")

def test_third(world):
    assert made == {made}
"""


def test_a_failed_test_ends_its_world_and_the_next_gets_another(tmp_path: Path) -> None:
    for name, marks, made in (
        ("shared", "pytest.mark.shared", ["world", "its end", "world"]),
        ("kept", "", ["world"]),
    ):
        text = MODULE.format(marks=marks, made=made)
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    options: list[str | Path] = [
        "-p",
        "tests.real.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-c",
        ROOT / "pyproject.toml",
    ]
    command: list[str | Path] = [sys.executable, "-m", "pytest", "--rootdir", tmp_path, *options, tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 failed, 4 passed" in done.stdout, done.stdout + done.stderr
