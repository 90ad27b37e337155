"""What meets a contributor: hooks before a commit, forms for issues, pages that they lead to."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.wheel import ROOT

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / ".github/PULL_REQUEST_TEMPLATE.md"]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_hooks_before_a_commit_are_what_make_check_runs_and_fetch_nothing() -> None:
    (ours,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert ours["repo"] == "local"
    assert {hook["language"] for hook in ours["hooks"]} == {"system"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(BIN)", ".venv/bin")
    run = {re.sub(r" --check| \.$|env ", "", hook["entry"]) for hook in ours["hooks"]}
    made = {
        re.sub(r" --check| \.$", "", line.strip())
        for target in ("lint", "types")
        for line in re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[0].splitlines()
    }
    assert run == made


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_has_a_name_and_no_question_twice(form: Path) -> None:
    requested = read(form)
    assert {"name", "description", "body"} <= set(requested)
    fields = [each for each in requested["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    for reported in (["id"], ["attributes", "label"]):
        found = [each[reported[0]] if len(reported) == 1 else each[reported[0]][reported[1]] for each in fields]
        assert len(set(found)) == len(fields)
    assert any(each.get("validations", {}).get("required") for each in fields)


@pytest.mark.parametrize("page", [*PAGES, *FORMS], ids=lambda page: page.name)
def test_every_page_that_is_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (page.parent / link).is_file(), link
    for name in re.findall(r"\b((?:docs/)?[\w-]+\.md)\b", re.sub(r"\]\([^)]*\)", "]", text)):
        assert (ROOT / name).is_file(), name
