"""The map in docs/architecture.md: every folder and function that it names exists, and every folder is named."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PRODUCT = ("orchestrator", "streaming", "state")
BESIDE = ("replication_tool", "lab", "bench", "chaos", "reports")
FOLDERS = re.findall(r"^\| `([\w/]+)/` \|", PAGE, re.MULTILINE)
NAMES = sorted(set(re.findall(rf"`((?:{'|'.join(PRODUCT)})(?:\.\w+)+)`", PAGE)))


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or what one defines, a method of a class included."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length]).with_suffix(".py")
        if path.is_file():
            body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
            for part in parts[length:]:
                found = [
                    each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == part
                ]
                if not found:
                    return False
                body = found[0].body
            return True
    return ROOT.joinpath(*parts).is_dir()


def test_the_map_names_every_folder_that_holds_modules() -> None:
    held = {path.parent.relative_to(ROOT).as_posix() for name in PRODUCT for path in (ROOT / name).rglob("*.py")}
    assert sorted(FOLDERS) == sorted(held)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_on_the_map_exists(name: str) -> None:
    assert is_defined(name)


def test_the_map_names_the_way_of_a_position_and_of_a_failover() -> None:
    assert len(NAMES) > 20
    assert not is_defined("streaming.last_records.read_heads")
    assert not is_defined("streaming.nowhere")


def test_no_folder_holds_more_than_a_dozen_modules() -> None:
    counts = {
        folder: sum(1 for path in (ROOT / folder).glob("*.py") if path.name not in {"__init__.py", "__main__.py"})
        for folder in FOLDERS
        if not folder.endswith("/versions")  # migrations: a series that only grows
    }
    assert {folder: count for folder, count in counts.items() if count > 12} == {}


ONE_THING = {
    "cli.py": "the command line of a program",
    "demo.py": "the demo: played, and timed",
    "drill.py": "a drill: typed, decided, carried out by a runner, and timed",
    "errors.py": "each package's own branch of the tree of errors",
    "faults.py": "faults of an environment: the lab's by signal, those of containers as values",
    "former_checkpoints.py": "checkpoints that moves left behind: found, and judged",
    "history.py": "the history: printed, and stored",
    "intents.py": "intents: decided, and carried out by a runner",
    "java.py": "Java: found on the machine, and how the lab starts Kafka with it",
    "lookup.py": "look-ups of resume offsets: what one keeps, and what they take beside Kafka's own",
    "maintenance.py": "upkeep of the store: its shapes, and its statements",
    "offset_syncs.py": "a replicator's offset syncs: read off the standby, and looked up",
    "plan.py": "a plan: typed, printed, and made",
    "reconcile.py": "a row that is put right after a restore: typed, decided, done",
    "report.py": "the report that a program makes of its results",
    "rewind.py": "a rewind: typed, its facts, its gates",
    "security.py": "the group of settings, and what Kafka's client gets for it",
    "stage.py": "where a scenario is played: processes, or containers",
    "status.py": "the status: read, built, and as JSON",
    "store.py": "the store: its verb, and what it is",
    "switchover.py": "a switchover: typed, and timed",
    "tail.py": "the tail of a failover: read off the cluster that was left, and written again",
    "timeline.py": "the timeline: its shape, as JSON, printed, and what it takes",
    "topics.py": "topics: what a query's are called on each cluster, and how the lab makes and reads them",
    "truncation.py": "a log that was cut: noticed, and judged",
    "watch.py": "watching: the verb, and how soon it sees a cluster die",
}
"""File names that several modules have because they are one thing in several layers, or in the program that measures
it.
"""


def test_modules_share_a_name_only_where_they_are_one_thing() -> None:
    counts = Counter(
        path.name
        for name in (*PRODUCT, *BESIDE)
        for path in (ROOT / name).rglob("*.py")
        if path.name not in {"__init__.py", "__main__.py"}
    )
    assert sorted(name for name, count in counts.items() if count > 1) == sorted(ONE_THING)
