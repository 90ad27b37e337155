"""The units for systemd are understood by it, name verbs that exist, and leave processes in sight."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from orchestrator.cli.app import cli
from orchestrator.errors import ExitCode
from tests.wheel import ROOT

UNITS = sorted((ROOT / "conf" / "systemd").glob("*.service"))
PROGRAM = "/opt/tideover/bin/tideover"
SYSTEMD = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(SYSTEMD is None, reason="systemd is not installed")


def service(unit: Path) -> dict[str, str]:
    """The last value of each key of the unit's service."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys know case
    parser.read(unit, encoding="utf-8")
    return dict(parser["Service"])


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    assert SYSTEMD is not None
    return subprocess.run([SYSTEMD, *arguments], capture_output=True, text=True, timeout=120, check=False)


def usable(unit: Path, folder: Path) -> Path:
    """The unit as an installed instance, with a program that is there."""
    copy = folder / unit.name.replace("@.", "@a.")
    copy.write_text(unit.read_text(encoding="utf-8").replace(PROGRAM, sys.executable), encoding="utf-8")
    return copy


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_the_unit(unit: Path, tmp_path: Path) -> None:
    said = analyze("verify", "--man=no", "--recursive-errors=no", str(usable(unit, tmp_path)))
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_the_unit_little_exposed(unit: Path, tmp_path: Path) -> None:
    said = analyze("security", "--offline=true", "--no-pager", "--threshold=20", str(usable(unit, tmp_path)))
    assert said.returncode == 0, said.stdout[-200:]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_unit_starts_a_verb_that_exists_with_options_that_it_has(unit: Path) -> None:
    program, *words = service(unit)["ExecStart"].split()
    assert program == PROGRAM
    assert words[:2] == ["-c", "/etc/tideover/tideover.yaml"]
    verb = cli.get_command(click.Context(cli), words[2])
    assert verb is not None
    known = {option for parameter in verb.params for option in parameter.opts}
    assert {word for word in words[3:] if word.startswith("--")} <= known


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_no_unit_hides_the_processes_of_its_host(unit: Path) -> None:
    # Another process that cannot be seen counts as gone, and a fence would believe it.
    keys = service(unit).keys()
    assert not keys & {"ProtectProc", "ProcSubset", "PrivateUsers", "PrivatePIDs", "DynamicUser", "RootDirectory"}


def test_a_runner_gets_the_stop_signal_alone_and_time_for_it() -> None:
    from streaming.spark.runner import service as parts

    runner = service(next(unit for unit in UNITS if "@" in unit.name))
    needed = parts.GRACE_SECONDS + parts._TRACKER_GRACE_SECONDS + parts._SPARK_GRACE_SECONDS
    assert runner["KillMode"] == "mixed"
    assert int(runner["TimeoutStopSec"]) >= 2 * needed


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_no_unit_restarts_on_a_configuration_mistake(unit: Path) -> None:
    assert service(unit)["RestartPreventExitStatus"] == str(int(ExitCode.MISCONFIGURED))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_hung_loop_is_ended_by_the_watchdog(unit: Path) -> None:
    keys = service(unit)
    assert (keys["Type"], keys["NotifyAccess"]) == ("notify", "main")
    assert int(keys["WatchdogSec"]) >= 60, "a turn may wait for a store that answers slowly, each call up to 11 s"


def test_no_unit_contains_a_secret() -> None:
    for unit in UNITS:
        assert not re.search(r"(?i)(password|secret|token)\s*=", unit.read_text(encoding="utf-8"))
