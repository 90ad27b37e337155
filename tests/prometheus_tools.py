"""Prometheus' own programs, as ``make prometheus`` finds them."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"


def prometheus_tool(name: str) -> str:
    """Where the program is; skips only where it could not be had."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None and shutil.which("apt-get") is not None:
        pytest.fail(f"{name} is missing: run make prometheus")
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found
