"""Texts for people: a count has its noun in the right form."""

import pytest

from state.plain_text import amount


@pytest.mark.parametrize(("count", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records"), (-1, "-1 records")])
def test_only_one_is_singular(count: int, text: str) -> None:
    assert amount(count, "record") == text
