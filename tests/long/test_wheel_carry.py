"""The whole demo from an installed wheel, in a folder where no source can be found."""

from pathlib import Path

import pytest

from tests.ports import free_base_port
from tests.wheel import build_wheel, install_wheel, run_installed

pytestmark = pytest.mark.long


def test_an_installed_wheel_carries_queries_from_a_killed_cluster(tmp_path: Path) -> None:
    programs = install_wheel(build_wheel(tmp_path / "build"), tmp_path / "venv")
    away = tmp_path / "away"
    away.mkdir()
    output = run_installed(
        [str(programs / "python"), "-m", "lab.demo", "--dir", "demo", "--base-port", str(free_base_port())],
        away,
        timeout=900,
    )
    assert output.returncode == 0, output.stdout[-2000:] + output.stderr[-1000:]
    assert "lost 0, repeated 0 in 3 carried queries" in output.stdout
