"""Clusters that others run: known by a configuration, with traffic and verdicts of the lab's own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab import cli, turn
from lab.external_clusters import ExternalClusters
from replication_tool.reverse import Side

CONFIGURATION = """
clusters:
  east: {bootstrap: ["a:1", "b:2"]}
  west: {bootstrap: ["127.0.0.1:%d"]}
queries: {}
"""


@pytest.fixture
def external(tmp_path: Path) -> ExternalClusters:
    path = tmp_path / "tideover.yaml"
    path.write_text(CONFIGURATION % 9)
    return ExternalClusters(tmp_path, path)


@pytest.mark.parametrize("source", ["east", "west"])
def test_replication_of_others_is_reversed_by_the_tool_of_users(
    external: ExternalClusters, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    made: list[tuple[str, str, str]] = []

    def reverse(begin: Side, end: Side, _: Callable[[str], None], *, where_none: str) -> None:
        made.append((begin.name, end.name, where_none))

    monkeypatch.setattr(turn, "reverse", reverse)
    monkeypatch.setattr(turn, "Writer", lambda name, cluster: (name, cluster.bootstrap))
    words = ("turn", "--dir", str(external.directory), "--config", str(external.configuration), "--from", source)
    assert cli.main(words) == 0
    assert made == [(source, "west" if source == "east" else "east", "skip")]
