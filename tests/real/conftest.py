"""What every real test gets: only the cases that the installed Spark can run, and a world that is whole."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lab.world import World
from streaming.jars import set_names
from tests.real.core import is_core
from tests.real.golden import unpack
from tests.world import running_clusters

pytest.register_assert_rewrite("tests.real.theatre")  # so that a failed one shows which ids are lost or repeated

SINCE = {
    ("version", 2): (4, 2),  # offset log v2
    ("store", "format-2"): (4, 0),  # state files named by the commit log
}
"""Values of a test's parameters, and the first version of Spark that can write what they stand for."""

LONGEST = (
    "random_moments", "failback", "attached", "carries", "switch_in_batch", "faults", "carry_spark", "watch", "drill",
    "runner", "standalone", "lab", "alignment", "replicator_returns", "golden_scenario", "recut", "chain", "resent",
    "transactions",
)  # fmt: skip
"""Files of a minute and more, the longest first: processes that share the work begin with them."""

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two clusters for tests that make topics of their own there, and leave both running."""
    with running_clusters(tmp_path_factory.mktemp("pair")) as world:
        yield world


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of Spark's tests jar, which no test changes."""
    return unpack(tmp_path_factory.mktemp("golden"))


def has_jars(kind: str, version: str) -> bool:
    """Whether jars of this kind are locked for a version of Spark: not everything has a release for every Spark."""
    return f"{kind}-{version}" in set_names()


def is_known(parameters: dict[str, Any], spark: tuple[int, int]) -> bool:
    """Whether this Spark can write what a test's parameters name."""
    return all(spark >= since for (name, value), since in SINCE.items() if parameters.get(name) == value)


@pytest.hookimpl(tryfirst=True)  # before the marks are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the core; leave out what an older Spark cannot have; begin with long files where processes share work."""
    for item in items:
        if item.path.parent == Path(__file__).parent and is_core(item.path.name, item.name):
            item.add_marker("core")
    major, minor = pyspark.__version__.split(".")[:2]
    spark = (int(major), int(minor))
    strange = [item for item in items if not (is_known(_parameters(item), spark) and _has_its_jars(item))]
    if strange:
        config.hook.pytest_deselected(items=strange)
        items[:] = [item for item in items if item not in strange]
    if hasattr(config, "workerinput"):
        ranks = {f"test_{name}": rank for rank, name in enumerate(LONGEST)}
        items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note who failed, for the clean-up that follows."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """One failure shall not become three: what a test left half done ends with it, and the next begins again."""
    if item.stash.get(_FAILED, False) and item.get_closest_marker("shared"):
        item.session._setupstate.teardown_exact(None)  # as behind the last test; there is no other way to order it


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else dict(callspec.params)


def _has_its_jars(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("jars")
    return marker is None or has_jars(marker.args[0], pyspark.__version__)
