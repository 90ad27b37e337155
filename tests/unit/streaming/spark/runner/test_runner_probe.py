"""Which cluster a query must not be run with, by what answered the newest look."""

from datetime import UTC, datetime
from typing import Any

import pytest

from state.settings.keys import Tideover
from streaming.kafka.probed_clusters import probes_on
from streaming.probe.identities import Identities
from streaming.probe.probe_result import ProbeResult
from streaming.spark.runner.runner_probe import RunnerProbe
from tests.memory_store import MemoryStore
from tests.sights import TROUBLES


class Look:
    """A cluster behind whose name another one answers, or not."""

    is_over = True

    def __init__(self, *, other: bool) -> None:
        self._trouble = TROUBLES["identity"] if other else None

    def run(self, timeout: float) -> ProbeResult:
        return ProbeResult(began=0.0, seconds=0.0, trouble=self._trouble)

    def close(self) -> None:
        """Nothing to give back."""


def settings(output: dict[str, Any] | None) -> Tideover:
    query = {
        "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
        "runners": ["a"], "checkpoint": "/c", "output": output,
    }  # fmt: skip
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {name: {"bootstrap": [f"{name}:1"]} for name in ("east", "west", "sums", "idle")},
            "runners": {"a": {}},
            "queries": {"q": query},
        }
    )


@pytest.mark.parametrize(
    ("output", "other", "refused"),
    [
        (None, "east", True),
        (None, "west", False),
        ({"topic": "t"}, "east", True),
        ({"topic": "t"}, "west", False),
        ({"topic": "t", "cluster": "sums"}, "sums", True),
        ({"topic": "t", "cluster": "west"}, "west", True),
        ({"topic": "t", "cluster": "sums"}, "west", False),
    ],
)
def test_a_query_neither_reads_nor_writes_a_cluster_at_anothers_address(
    output: dict[str, Any] | None, other: str, refused: bool
) -> None:
    known = settings(output)
    eyes = {name: lambda name=name: Look(other=name == other) for name in known.clusters}
    lookout = RunnerProbe("a", "1", eyes, MemoryStore(lambda: datetime.now(UTC)), known.detection)
    lookout.begin()
    try:
        assert lookout.stranger_to(known.queries["q"], "east") == (TROUBLES["identity"].text if refused else None)
    finally:
        lookout.close()


def test_a_runner_looks_at_the_cluster_to_which_its_query_writes() -> None:
    fixed = settings({"topic": "t", "cluster": "sums"})
    assert set(probes_on(fixed, Identities(fixed), ["q"])) == {"east", "west", "sums"}
    active = settings({"topic": "t"})
    assert set(probes_on(active, Identities(active), ["q"])) == {"east", "west"}
