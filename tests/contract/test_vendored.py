"""What is vendored is what was fetched, unchanged, with its licence; what is for tests stays out of the wheel."""

import hashlib
from pathlib import Path

import pytest

from tests.contract.test_imports import ROOT
from tests.contract.test_requirements import PYPROJECT

FOLDERS = (*sorted((ROOT / "tests" / "vendored").iterdir()), ROOT / "orchestrator/http/pages/static/uplot")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_vendored_folder_holds_the_bytes_that_it_names_and_a_licence(folder: Path) -> None:
    sums = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    named = {name: digest for digest, name in (line.split() for line in sums)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert {name: digest for name, digest in found.items() if name != "SHA256SUMS"} == named
    assert "LICENSE" in named
    assert folder.name in (ROOT / "NOTICE").read_text(encoding="utf-8")


def test_tests_are_no_part_of_the_wheel() -> None:
    assert not any(each.startswith("tests") for each in PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"])
