"""The companion's jar is the same bytes from the same sources, and an installed wheel needs no compiler for it."""

import zipfile
from pathlib import Path

import pytest

from streaming.companion.jar import LINES, build, companion_jar, compile_lines

pytestmark = pytest.mark.real


def test_the_same_sources_make_the_same_jar(tmp_path: Path) -> None:
    build(tmp_path / "again.jar", print)
    assert (tmp_path / "again.jar").read_bytes() == companion_jar().read_bytes()


def test_the_classes_are_the_same_for_every_line_of_spark(tmp_path: Path) -> None:
    """``compile_lines`` refuses the first class that differs."""
    made = compile_lines(tmp_path, print, LINES)
    with zipfile.ZipFile(companion_jar()) as jar:
        assert made == {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
