"""The companion's jar is the same bytes from the same sources, and an installed wheel needs no compiler for it."""

from pathlib import Path

import pytest

from streaming.companion.jar import build, companion_jar

pytestmark = pytest.mark.real


def test_the_same_sources_make_the_same_jar(tmp_path: Path) -> None:
    build(tmp_path / "again.jar", print)
    assert (tmp_path / "again.jar").read_bytes() == companion_jar().read_bytes()
