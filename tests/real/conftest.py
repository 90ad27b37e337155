"""What every real test gets: only the cases that the installed Spark can be asked for."""

from typing import Any

import pyspark
import pytest

from streaming.jars import set_names

SINCE = {
    ("version", 2): (4, 2),  # offset log v2
    ("store", "format-2"): (4, 0),  # state files named by the commit log
}
"""Values of a test's parameters, and the first version of Spark that can write what they stand for."""


def has_jars(kind: str, version: str) -> bool:
    """Whether jars of this kind are locked for a version of Spark: not everything has a release for every Spark."""
    return f"{kind}-{version}" in set_names()


def is_known(parameters: dict[str, Any], spark: tuple[int, int]) -> bool:
    """Whether this Spark can write what a test's parameters ask for."""
    return all(spark >= since for (name, value), since in SINCE.items() if parameters.get(name) == value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, visibly, the cases that an older Spark cannot have."""
    major, minor = pyspark.__version__.split(".")[:2]
    spark = (int(major), int(minor))
    strange = [item for item in items if not (is_known(_parameters(item), spark) and _has_its_jars(item))]
    if strange:
        config.hook.pytest_deselected(items=strange)
        items[:] = [item for item in items if item not in strange]


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else dict(callspec.params)


def _has_its_jars(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("jars")
    return marker is None or has_jars(marker.args[0], pyspark.__version__)
