"""What every test may count on."""

import os
import signal

import pytest
from hypothesis import settings

# A shell makes what it starts in the background deaf to SIGINT, and a deaf process has deaf children: the tests that
# interrupt a verb would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something about the machine, not about the code.
settings.register_profile("tideover", deadline=None)
settings.load_profile("tideover")

# JVMs of tests live for a minute: what the second compiler makes comes too late and takes a core.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    """Where a report of faults is wanted, whoever collects the results of all processes writes it."""
    if os.environ.get("TIDEOVER_FAULTS_REPORT") == "1" and not hasattr(config, "workerinput"):
        from tests.injected import plugin  # with the simulation behind it: no other run shall pay for that

        config.pluginmanager.register(plugin(), "faults-report")
