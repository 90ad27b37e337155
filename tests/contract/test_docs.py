"""The documents say what the program says."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from orchestrator.cli.app import cli
from orchestrator.cli.reference import page, phases, with_phases
from orchestrator.config.load import load
from orchestrator.decide.gates.automatic import AUTOMATIC_GATES
from orchestrator.decide.gates.checks import GATES, REWIND_GATES
from orchestrator.decide.gates.readiness import READINESS_GATES
from state.settings.keys import Tideover
from streaming.companion.jar import LINES
from tests import support
from tests.injected import whole_rows
from tests.simulation.faults import table

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_the_program_prints() -> None:
    said = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert said == page(cli), "run: make docs"


def test_the_concepts_show_the_table_of_phases_of_the_program() -> None:
    said = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert said == with_phases(said), "run: make docs"


def test_the_table_of_faults_is_what_the_scenarios_say() -> None:
    said = table.PAGE.read_text(encoding="utf-8")
    assert said == table.with_table(said), "run: make docs"


def test_the_page_of_what_was_tried_is_printed_from_its_tests() -> None:
    assert support.PAGE.read_text(encoding="utf-8") == support.page(), "run: make docs"
    assert {f"PySpark {line.spark}" for line in LINES} == {name for name in support.ROWS if name.startswith("PySpark")}
    for test in support.named_tests():
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_each_test_of_a_sparks_row_runs_on_that_spark() -> None:
    """By its mark: ``matrix`` on each Spark of the matrix and on the installed one, ``long`` on the latter alone."""
    listed = re.findall(r"^\tconf/test-matrix ([\d. ]+)(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    matrix = {f"PySpark {version}": only for versions, only in listed for version in versions.split()}
    default = f"PySpark {LINES[-1].spark}"
    for row, cells in support.ROWS.items():
        for test in {test for cell in cells for test in cell.tests}:
            text = (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")
            (marks,) = re.findall(r"^pytestmark = (.+)$", text, re.MULTILINE)
            runs = "pytest.mark.matrix" in marks or (row == default and "pytest.mark.long" in marks)
            assert runs, f"{row}: {test}"
            if row.startswith("PySpark") and row != default:
                assert row in matrix, f"{row} is in no run: {test}"
                assert not matrix[row] or test.partition("::")[0] in matrix[row].split(), f"{row} does not run {test}"


@pytest.mark.parametrize("login", support.LOGINS)
def test_a_failover_of_each_login_runs_on_each_spark(login: str) -> None:
    _, moved = support.LOGINS[login]
    parted = [test.partition("::") for test in moved.tests]
    assert any(f"@pytest.mark.matrix\ndef {name}(" in (ROOT / file).read_text("utf-8") for file, _, name in parted)


def test_every_fault_has_a_scenario_or_is_said_to_have_none() -> None:
    numbers = sorted([row.number for row in table.rows()] + list(table.NOT_BUILT))
    assert numbers == list(range(1, len(numbers) + 1))
    (but,) = re.findall(r"Each is a test, except ([\d, and]+): Tideover runs no hooks", faults_page())
    assert [int(number) for number in re.findall(r"\d+", but)] == sorted(table.NOT_BUILT)


def faults_page() -> str:
    return table.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", sorted(table.REAL))
def test_a_fault_that_is_said_to_be_injected_into_real_parts_has_that_test(number: int) -> None:
    file, _, name = table.REAL[number].partition("::")
    assert number in {row.number for row in table.rows()}
    assert f"\ndef {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")


def test_at_least_fifteen_of_the_first_faults_are_played_whole_on_real_parts() -> None:
    assert table.IN_PART.keys() <= table.REAL.keys()
    assert len(whole_rows(table.REAL)) >= 15


@pytest.mark.parametrize("text", ["no marks", "marks {0} and {0}"])
def test_a_document_without_one_place_for_the_phases_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="one place for the phases"):
        with_phases(text.format(phases()))


def test_the_runbook_names_every_gate_that_can_refuse_at_night_and_no_other() -> None:
    moving, checking = names_of(*GATES, *AUTOMATIC_GATES), names_of(*READINESS_GATES)
    assert moving <= gates_in_rows("runbook.md") <= moving | checking
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert [name for name in checking if f"`{name}`" not in runbook] == []


def test_the_page_of_daily_operation_names_the_gates_of_rewind_and_check() -> None:
    named = gates_in_rows("operation.md")
    new = names_of(*READINESS_GATES) - names_of(*GATES)
    assert names_of(*REWIND_GATES) - names_of(*GATES) <= named
    assert named <= names_of(*REWIND_GATES) | names_of(*GATES) | new
    assert new <= named


def names_of(*gates: Callable[..., object]) -> set[str]:
    return {gate.__name__.replace("_", "-") for gate in gates}


def gates_in_rows(page: str) -> set[str]:
    """The names in the first cells of a page's tables of gates."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    tables = re.findall(r"^\| Gate \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", table, re.MULTILINE)]
    return {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}


def test_the_runbook_is_short_enough_for_the_night() -> None:
    assert len((ROOT / "docs" / "runbook.md").read_text(encoding="utf-8").split()) <= 3500


def test_the_annotated_configuration_is_valid() -> None:
    assert load(ROOT / "conf" / "tideover.yaml").settings.queries


PLATFORM = r"\.\./\.\./actions/"
"""Links that a code hosting platform resolves: the badge."""
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page_path", PAGES, ids=lambda p: p.name)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page_path: Path) -> None:
    links = re.findall(rf"\]\((?!http|{PLATFORM})([^)#]*)(?:#([^)]+))?\)", page_path.read_text(encoding="utf-8"))
    assert [(file, anchor) for file, anchor in links if not leads_somewhere(page_path, file, anchor)] == []


def leads_somewhere(page_path: Path, file: str, anchor: str) -> bool:
    target = page_path.parent / file if file else page_path
    return target.exists() and (not anchor or anchor in anchors_of(target))


def anchors_of(page_path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page_path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_of_forty_questions_has_an_answer_and_a_heading() -> None:
    page = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    questions = re.findall(r"^(\d+)\. \*\*.+?[?.]\*\* .+?\n?.*?\[.+?\]\((\w+\.md)#([\w-]+)\)$", page, re.MULTILINE)
    assert [int(number) for number, _, _ in questions] == list(range(1, 41))
    assert [anchor for _, file, anchor in questions if anchor not in anchors_of(ROOT / "docs" / file)] == []


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


QUOTED = {
    "runbook.md": [
        "the JVM does not answer", "query stays cold", "query not started", "query failed", "runner is down",
        "fenced by tideover: epoch ", "gates pass; --details shows them", "the standby lags: ",
    ],
    "operation.md": [
        "the store was restored from an older backup", "it is one of the newest ", ", kept for ", " uses it",
        "retention.checkpoints is not set", " is not declared", " could not clean it: ", "it is outside ",
        "no runner reports that ",
    ],
    "upgrade.md": [
        "an upgrade needs all operations closed", "the store cannot be reached or is locked",
        "this user may not upgrade it to ", ", and this version of Tideover needs ",
        ", and this version of Tideover knows up to ",
    ],
    "failback.md": [" lacked at ", "have come there since"],
}  # fmt: skip
"""What the pages quote of the product's messages."""


@pytest.mark.parametrize(("name", "quote"), [(name, quote) for name in QUOTED for quote in QUOTED[name]])
def test_a_message_that_a_page_quotes_is_one_that_the_product_says(name: str, quote: str) -> None:
    assert quote.strip(" ,:") in (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert quote in said_by_the_product()


@functools.cache
def said_by_the_product() -> str:
    """All source of the product, with the parts of each string literal put together."""
    files = [file for part in ("orchestrator", "streaming", "state") for file in (ROOT / part).rglob("*.py")]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text(encoding="utf-8") for file in files))
