"""What every test may count on."""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import core, settings

from tests.thorough import tries

# A shell makes what it starts in the background deaf to SIGINT, and a deaf process has deaf children: the tests that
# interrupt a verb would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something about the machine, not about the code.
settings.register_profile("tideover", deadline=None, print_blob=True, max_examples=tries(100))
settings.load_profile("tideover")

# Spark's Python workers are of this environment.
os.environ["PYSPARK_PYTHON"] = sys.executable

# Rich draws an exception with all local values of all frames, which takes seconds; the product writes it plainly, too.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback

# JVMs of tests live for a minute: what the second compiler makes comes too late and takes a core.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A verb that a test runs in this process sets its logs up for good, on a stream that ends with the test."""
    configure, hook, before = structlog.configure, threading.excepthook, list(logging.root.handlers)

    def configure_for_now(**given: Any) -> None:
        configure(**given | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", configure_for_now)
    yield
    structlog.reset_defaults()
    threading.excepthook = hook
    for handler in [each for each in logging.root.handlers if each not in before]:
        logging.root.removeHandler(handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """One number repeats a run: Hypothesis draws its examples by the seed that the tests are ordered by."""
    seed = session.config.getoption("randomly_seed", None)
    if seed is not None and session.config.getoption("--hypothesis-seed") is None:
        core.global_force_seed = seed


def pytest_collection_finish(session: pytest.Session) -> None:
    """All that was imported stays: a collector that looks through it again and again takes a tenth of a quick run."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say the seed where it is needed: a quiet run prints no header."""
    seed = config.getoption("randomly_seed", None)
    if seed is not None and (terminalreporter.stats.keys() & {"failed", "error"} or config.get_verbosity() < 0):
        terminalreporter.write_line(f"seed: --randomly-seed={seed}")


def pytest_configure(config: pytest.Config) -> None:
    """Where a report of faults is wanted, the process that collects all results writes it."""
    if os.environ.get("TIDEOVER_FAULTS_REPORT") == "1" and not hasattr(config, "workerinput"):
        from reports.errors import ReportsError
        from tests.injected import plugin  # with the simulation behind it: no other run shall pay for that

        try:
            config.pluginmanager.register(plugin(), "faults-report")
        except ReportsError as error:
            raise pytest.UsageError(str(error)) from error
