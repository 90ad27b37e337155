"""What ``make wheel`` builds: complete, nothing but the program, and alive far from the checkout."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from streaming.companion.jar import companion_jar
from tests.wheel import ROOT, build_wheel, install_wheel, run_installed

pytestmark = pytest.mark.real

PACKAGES = ("orchestrator", "streaming", "state", "replication_tool", "lab", "examples")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """A folder far from the checkout, with the annotated configuration."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "var").mkdir()
    shutil.copy(ROOT / "conf" / "tideover.yaml", tmp_path / "conf" / "tideover.yaml")
    return tmp_path


def test_the_wheel_holds_the_program_whole_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    ours = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert (sorted(held - ours), sorted(ours - held)) == ([], [])


def test_an_installed_wheel_shows_its_version_and_checks_a_configuration(programs: Path, away: Path) -> None:
    output = run_installed([str(programs / "tideover"), "--version"], away)
    assert output.stdout.startswith("tideover, version "), output.stderr
    command = [str(programs / "tideover"), "-c", "conf/tideover.yaml", "config", "check", "-o", "json"]
    checked = run_installed(command, away)
    assert json.loads(checked.stdout)["queries"] == 1, checked.stderr


def test_an_installed_wheel_has_its_migrations_its_jar_sets_and_its_lab(programs: Path, away: Path) -> None:
    listed = run_installed([str(programs / "tideover"), "-c", "conf/tideover.yaml", "list", "-o", "json"], away)
    assert [row["state"] for row in json.loads(listed.stdout)] == ["never-run"], listed.stderr
    look = (
        "import lab, state, streaming.jars as jars; from importlib.resources import files; print(state.__file__); "
        "print(*jars.set_names()); print((files(lab) / 'log4j2.yaml').is_file())"
    )
    found = run_installed([str(programs / "python"), "-I", "-c", look], away).stdout.splitlines()
    assert found[0].startswith(str(programs.parent)), "not the checkout's"
    assert "kafka-4.3.1" in found[1]
    assert found[2] == "True"


def test_an_installed_wheel_has_the_companion_where_no_compiler_is(programs: Path, away: Path) -> None:
    script = "from streaming.companion.jar import companion_jar; print(companion_jar())"
    command = ["env", "PATH=/nowhere", "JAVA_HOME=/nowhere", str(programs / "python"), "-I", "-c", script]
    found = run_installed(["/usr/bin/" + command[0], *command[1:]], away)
    path = Path(found.stdout.strip())
    assert path.is_relative_to(programs.parent), found.stderr
    assert path.read_bytes() == companion_jar().read_bytes()
