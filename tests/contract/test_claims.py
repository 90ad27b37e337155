"""What the documents claim about commands, keys, schemes and figures is true of this commit.

A claim is compared with the program, or with the report that measured it: a page cannot name a verb, an option, a
target, a module or a key that is not there, and a figure has one source.
"""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchestrator.cli.app import cli
from orchestrator.cli.moves.options import CONSENTS
from state.settings.checkpoint_schemes import SAFE, scheme_refusal
from state.settings.keys import Tideover
from state.store.sql.store import HEAD
from tests.contract.test_docs import ROOT, keys_of

GENERATED = {"reference.md", "restored.md", "messages.md", "defects.md"}
"""Pages that a program prints, and the one that quotes what was wrong once."""
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    if page.name not in GENERATED
)  # fmt: skip
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def snippets(page: Path) -> Iterator[str]:
    """Each line of a block of commands, and each text between backticks."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    rest = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (each.replace("\n", " ") for each in re.findall(r"`([^`]+)`", rest))


def words_after(program: str, page: Path) -> Iterator[list[str]]:
    for snippet in snippets(page):
        found = re.search(rf"(?:^|&& |\$ ){re.escape(program)} ([a-z-].*)", snippet)
        if found:
            command = re.split(r"\s#|[|>;…]", found[1], maxsplit=1)[0]
            try:
                yield shlex.split(command)
            except ValueError:  # an example that is cut
                yield command.split()


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command of the program that these words name, and what follows. Raises KeyError."""
    command: click.Command = cli
    options = [option for parameter in cli.params for option in parameter.opts]
    while words and words[0].startswith("-"):
        assert words[0].partition("=")[0] in options, words
        words = words[2:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            raise KeyError(words[0])
        command, words = found, words[1:]
    return command, words


@EACH_PAGE
def test_each_verb_and_option_that_a_page_shows_is_one_of_the_program(page: Path) -> None:
    wrong = []
    for words in words_after("tideover", page):
        try:
            command, rest = resolved(words)
        except KeyError:
            wrong.append(words)
            continue
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        ours = rest[: rest.index("--")] if "--" in rest else rest  # behind it is the command line of another program
        wrong += [words for word in ours if word.startswith("--") and word.partition("=")[0] not in known]
    assert wrong == []


@EACH_PAGE
def test_each_target_of_make_that_a_page_shows_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in words_after("make", page):
        assert re.search(rf"^{re.escape(words[0])}:", makefile, re.MULTILINE), words
        assert [word for word in words[1:] if "=" in word and f"({word.partition('=')[0]})" not in makefile] == []


@EACH_PAGE
def test_each_module_that_a_page_runs_exists(page: Path) -> None:
    for words in words_after("python -m", page):
        if words[0] not in {"http.server", "venv", "pip", "pytest"}:
            assert importlib.util.find_spec(words[0]) is not None, words


@EACH_PAGE
def test_each_key_of_the_configuration_that_a_page_names_exists(page: Path) -> None:
    known = keys_of(Tideover)
    groups = "policy|retention|evidence|operations|http|notify|traces"
    named = {key for text in snippets(page) for key in re.findall(rf"^(?:{groups})\.([a-z_]+)", text)}
    assert named <= known


def test_the_schemes_that_a_page_calls_refused_are_refused_and_no_others() -> None:
    page = (ROOT / "docs" / "companion.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| another scheme: (.+?) \|", page, re.MULTILINE)
    refused = re.findall(r"`(\w+)`", row)
    assert refused
    assert [scheme for scheme in refused if scheme_refusal(f"{scheme}://bucket/folder") is None] == []
    (works,) = re.findall(r"^\| File systems \| (.+) \|$", page, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", works))
    assert named == SAFE


FIGURES = [
    ("processor time of", "bench-places", "6 ms at 4", r"tracking, 4 partitions: processor time .* 6\.\d+ \("),
    ("processor time of tracking", "bench-places", "40 ms at 300", r"tracking, 300 partitions: processor .* 40\.\d "),
    ("store, a day", "timeline", "12.8 MB at 3,500", r"timeline of 3,500 partitions, 24 h .* 12\.8 \("),
    ("a query's pause in a switchover", "bench-switchover", "0.95 s, where 0.98 s", r"pause, one query \| .* 0\.95 \("),
    ("a query's pause", "bench-switchover", "own restart of it, 0.51 s", r"pause, one query .* 0\.51 \("),
    ("a drill while it is under way, 1.2 s", "bench-switchover", "60 % longer", r"a drill under way: extra .* 60\.\d "),
    ("a drill while it is under way, 1.2 s", "bench-switchover", "1.2 s", r"the drill itself \| 1\.2\d "),
    ("a controller at rest", "bench-watch", "147 MB", r"controller at rest: memory .* 147 \("),
    ("a controller at rest", "bench-watch", "4.5 % of a core", r"controller at rest: share of a core .* 4\.5\d "),
]  # fmt: skip
"""By row of the table of costs: the report, the words there, and how the report says it."""


@pytest.mark.parametrize(("row", "report", "words", "reads"), FIGURES)
def test_a_cost_in_the_configuration_is_the_one_of_its_report(row: str, report: str, words: str, reads: str) -> None:
    costs = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (said,) = re.findall(rf"^\| {re.escape(row)}.*", costs, re.MULTILINE)
    assert words in said
    assert re.search(reads, (ROOT / "docs" / "reports" / f"{report}.md").read_text(encoding="utf-8")), reads


def test_each_consent_is_explained_and_each_gate_beside_it_names_it() -> None:
    page = (ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
    table = page[page.index("## What a consent accepts") : page.index("## Evidence of an operation")]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", table, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(CONSENTS)
    sources = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "orchestrator/decide/gates").glob("*.py"))
    gates = [gate for _, named in rows for gate in re.findall(r"`([\w-]+)`", named)]
    assert [gate for gate in gates if f'"{gate}"' not in sources] == []


def test_the_cost_of_a_drill_is_said_in_one_place() -> None:
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    drill = concepts[concepts.index("## A drill") : concepts.index("## What a plan cannot know")]
    assert "(configuration.md#what-it-costs)" in drill
    assert re.findall(r"\d+ s\b", drill) == []


def test_the_changelog_names_the_schema_that_this_version_has() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\b(0\d{3})\b", changelog)) <= {HEAD}


def test_the_claims_are_found() -> None:
    """Or nothing would be compared: the pages show many commands."""
    found = {program: sum(len(list(words_after(program, page))) for page in PAGES) for program in ("tideover", "make")}
    assert found["tideover"] > 150
    assert found["make"] > 30
