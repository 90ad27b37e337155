"""What every real test gets: only the cases that the installed Spark can be asked for."""

from typing import Any

import pyspark
import pytest

SINCE = {
    ("version", 2): (4, 2),  # offset log v2
    ("store", "format-2"): (4, 0),  # state files named by the commit log
}
"""Values of a test's parameters, and the first version of Spark that can write what they stand for."""


def is_known(parameters: dict[str, Any], spark: tuple[int, int]) -> bool:
    """Whether this Spark can write what a test's parameters ask for."""
    return all(spark >= since for (name, value), since in SINCE.items() if parameters.get(name) == value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, visibly, the cases that an older Spark cannot have."""
    major, minor = pyspark.__version__.split(".")[:2]
    spark = (int(major), int(minor))
    strange = [item for item in items if not is_known(_parameters(item), spark)]
    if strange:
        config.hook.pytest_deselected(items=strange)
        items[:] = [item for item in items if item not in strange]


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else dict(callspec.params)
