"""The documents say what the program says."""

import re
from pathlib import Path

import pytest

from orchestrator.cli.app import cli
from orchestrator.cli.reference import page
from orchestrator.config import load
from orchestrator.decide.gates import GATES
from orchestrator.decide.phases import diagram

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_the_program_prints() -> None:
    said = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert said == page(cli, diagram()), "run: make docs"


def test_the_runbook_names_only_gates_that_exist() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", runbook, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert named
    assert named <= {gate.__name__.replace("_", "-") for gate in GATES}


def test_the_annotated_configuration_is_valid() -> None:
    assert load(ROOT / "conf" / "tideover.yaml").settings.queries


@pytest.mark.parametrize("page_path", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(page_path: Path) -> None:
    text = page_path.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    assert [link for link in links if not (page_path.parent / link).exists()] == []
