"""Which cases of the real tests an older Spark runs."""

from typing import Any

import pytest

from tests.real.conftest import has_jars, is_known


@pytest.mark.parametrize(
    ("parameters", "spark", "expected"),
    [
        ({}, (3, 5), True),
        ({"version": 1, "store": "hdfs"}, (3, 5), True),
        ({"version": 2}, (4, 0), False),
        ({"version": 2}, (4, 2), True),
        ({"store": "format-2"}, (3, 5), False),
        ({"store": "format-2"}, (4, 0), True),
        ({"store": "format-2", "version": 2}, (4, 0), False),
    ],
)
def test_a_case_is_left_out_only_where_spark_cannot_write_it(
    parameters: dict[str, Any], spark: tuple[int, int], expected: bool
) -> None:
    assert is_known(parameters, spark) is expected


def test_a_table_format_is_left_out_where_it_has_no_release_for_spark() -> None:
    assert has_jars("delta", "4.0.0")
    assert not has_jars("delta", "3.5.7")
