"""The documents say what the program says."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from orchestrator.cli.app import cli
from orchestrator.cli.reference import page, phases, with_phases
from orchestrator.config import load
from orchestrator.decide.automatic import AUTOMATIC_GATES
from orchestrator.decide.gates import GATES
from orchestrator.decide.readiness import READINESS_GATES
from state.settings import Tideover
from tests.injected import whole_rows
from tests.simulation.faults import table

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_the_program_prints() -> None:
    said = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert said == page(cli), "run: make docs"


def test_the_concepts_show_the_table_of_phases_as_it_stands() -> None:
    said = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert said == with_phases(said), "run: make docs"


def test_the_table_of_faults_is_what_the_scenarios_say() -> None:
    said = table.PAGE.read_text(encoding="utf-8")
    assert said == table.with_table(said), "run: make docs"


def test_every_fault_has_a_scenario_or_is_said_to_have_none() -> None:
    numbers = sorted([row.number for row in table.rows()] + list(table.NOT_BUILT))
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("number", sorted(table.REAL))
def test_a_fault_that_is_said_to_be_injected_into_real_parts_has_that_test(number: int) -> None:
    file, _, name = table.REAL[number].partition("::")
    assert number in {row.number for row in table.rows()}
    assert f"\ndef {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


def test_at_least_fifteen_of_the_first_faults_are_played_whole_on_real_parts() -> None:
    assert table.IN_PART.keys() <= table.REAL.keys()
    assert table.PLAYED_IN_PART.keys() <= table.ROWS.keys()
    assert len(whole_rows(table.REAL)) >= 15


@pytest.mark.parametrize("text", ["no marks", "marks {0} and {0}"])
def test_a_document_without_one_place_for_the_phases_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="places for the phases"):
        with_phases(text.format(phases()))


def test_the_runbook_names_every_gate_that_can_refuse_and_no_other() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", runbook, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    moving = {gate.__name__.replace("_", "-") for gate in (*GATES, *AUTOMATIC_GATES)}
    checking = {gate.__name__.replace("_", "-") for gate in READINESS_GATES}
    assert moving <= named <= moving | checking
    assert {name for name in checking - named if f"`{name}`" not in runbook} == set()


def test_the_annotated_configuration_is_valid() -> None:
    assert load(ROOT / "conf" / "tideover.yaml").settings.queries


@pytest.mark.parametrize("page_path", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(page_path: Path) -> None:
    text = page_path.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    assert [link for link in links if not (page_path.parent / link).exists()] == []


def test_the_annotated_configuration_names_every_key() -> None:
    said = (ROOT / "conf" / "tideover.yaml").read_text(encoding="utf-8")
    missing = [name for name in keys_of(Tideover) if not re.search(rf"\b{re.escape(name)}:", said)]
    assert missing == []


def keys_of(group: type[BaseModel]) -> set[str]:
    """The keys of a group and of every group below it."""
    found = set()
    for name, field in group.model_fields.items():
        found.add(field.alias or name)
        below = [field.annotation]
        while below:
            here = below.pop()
            if isinstance(here, type) and issubclass(here, BaseModel):
                found |= keys_of(here)
            else:
                below += get_args(here)
    return found
