"""A file of unit tests lies where its module lies, under its name.

``tests/unit/orchestrator/decide/test_verdict.py`` tests ``orchestrator/decide/verdict.py``. A second file about that
module adds what it is about: ``test_verdict_window.py``.
"""

from pathlib import Path

import pytest

from tests.contract.test_imports import ROOT

UNIT = ROOT / "tests" / "unit"
FILES = sorted(path.relative_to(UNIT).as_posix() for path in UNIT.rglob("test_*.py"))
OTHERS = {
    "chaos/test_compose_file.py": "docker-compose.yml and docker-compose.secured.yml",
    "test_alignment_judge.py": "tests/alignment",
    "test_demo_recording.py": "tests/demo_recording.py",
    "test_injected.py": "tests/injected.py",
    "test_long_reports.py": "tests/long",
    "test_matrix_cases.py": "tests/real/conftest.py",
    "test_mutants.py": "tests/mutants",
    "test_shared_worlds.py": "tests/real/conftest.py",
    "test_worlds_judge.py": "tests/worlds",
}
"""Files about something that is no module of the program, and what that is."""


def module_of(file: str) -> Path | None:
    """The module that a file is about: the longest name that its own begins with."""
    path = Path(file)
    words = path.stem.removeprefix("test_").split("_")
    for length in range(len(words), 0, -1):
        module = ROOT / path.parent / f"{'_'.join(words[:length])}.py"
        if module.is_file():
            return module
    return None


@pytest.mark.parametrize("file", [file for file in FILES if file not in OTHERS])
def test_a_file_of_unit_tests_names_its_module(file: str) -> None:
    assert module_of(file) is not None, f"tests/unit/{file} names no module: see the rule above, or OTHERS"


def test_the_files_that_are_about_no_module_are_there() -> None:
    assert OTHERS.keys() <= {*FILES}
    assert [each for about in OTHERS.values() for each in about.split(" and ") if not (ROOT / each).exists()] == []
