"""The page on metrics lists every exported name with its labels, and no other name."""

import re

from orchestrator.http.exported import METRICS
from orchestrator.http.metrics import DURATION
from tests.contract.test_docs import ROOT

PAGE = ROOT / "docs" / "metrics.md"
LABELS = {each.name: each.labels for each in METRICS} | {DURATION: ("kind", "result")}


def rows() -> dict[str, tuple[str, ...]]:
    table = re.findall(
        r"^\| `(tideover_\w+)` \| (.*?) \| (.*?) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert all(unit and meaning for _, _, unit, meaning in table)
    return {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels, _, _ in table}


def test_the_page_lists_each_exported_name_with_its_labels() -> None:
    assert rows() == LABELS


def test_the_page_says_how_many_metrics_are_exported_without_the_store() -> None:
    alone = [each.name for each in METRICS if each.rows is not None]
    assert list(rows())[: len(alone) + 1] == [*alone[:5], DURATION, *alone[5:]]
    assert len(alone) + 1 == 8
    assert "the first eight names" in PAGE.read_text(encoding="utf-8")
