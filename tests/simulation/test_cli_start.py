"""A verb loads what it needs, so that one that only looks is there at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.app import VERBS, cli

HEAVY = (
    "alembic", "apscheduler", "kafka", "orchestrator.operation.execute", "orchestrator.facts.gather",
    "psycopg", "pyspark",
    "streaming.kafka.link", "streaming.resolve.resolver", "structlog",
)  # fmt: skip
SHOW = "import sys; from orchestrator.cli import main; code = main({!r}); print(code, *sorted(sys.modules))"


def loaded(*arguments: str) -> set[str]:
    """The modules that a verb which ends well has loaded."""
    script = SHOW.format(list(arguments))
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    code, *modules = done.stdout.splitlines()[-1].split(" ")
    assert code in {"0", "ExitCode.DONE"}, done.stderr
    return set(modules)


@pytest.mark.parametrize(
    "verb", [("list",), ("show", "revenue"), ("history",), ("timeline", "revenue"), ("clean", "--dry-run")]
)
def test_who_only_looks_loads_nothing_that_moves_queries(folder: Path, verb: tuple[str, ...]) -> None:
    assert loaded("list"), "it makes the store"
    found = loaded(*verb)
    assert "sqlalchemy" in found
    assert sorted(found.intersection(HEAVY)) == []


def test_every_verb_is_found_by_its_name() -> None:
    with cli.make_context("tideover", ["list"], resilient_parsing=True) as context:
        for name in VERBS:
            verb = cli.get_command(context, name)
            assert verb is not None
            assert verb.name == name
        assert cli.get_command(context, "frobnicate") is None
