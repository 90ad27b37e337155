"""The wheel as users get it: built from a copy of the sources, installed where no checkout can be seen."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from streaming.companion.jar import companion_jar

ROOT = Path(__file__).resolve().parents[1]

_SECONDS = 300
_NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "var", "*.egg-info", "__pycache__", "spark-warehouse")


def build_wheel(folder: Path) -> Path:
    """Build as ``make wheel`` does, without network, and leave the checkout as it is."""
    companion_jar()
    copy, wheels = folder / "sources", folder / "dist"
    shutil.copytree(ROOT, copy, ignore=_NOT_SOURCES)
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(wheels)], copy)
    (found,) = wheels.glob("*.whl")
    return found


def install_wheel(wheel: Path, folder: Path) -> Path:
    """A virtual environment with the wheel, and with what it depends on from ours; returns its folder of programs.

    Our packages are added by a path file: path files inside of them, such as that of an editable install, do not count
    there, so nothing but the wheel can be found.
    """
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
    python = folder / "bin" / "python"
    _run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index",
         "--disable-pip-version-check", str(wheel)],
        folder.parent,
    )  # fmt: skip
    (site,) = (folder / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin"


def run_installed(command: Sequence[str], cwd: Path, *, timeout: float = 120.0) -> "subprocess.CompletedProcess[str]":
    """Run a program of the wheel with nothing of ours in its environment."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "PYSPARK", "TIDEOVER", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def _run(command: Sequence[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
