"""What a log line may show."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from streaming.logging_setup import set_up_logs

set_up_logs({form!r})

def connect():
    password = "hush" + "-hush"
    raise ValueError("the broker said no")

try:
    connect()
except ValueError:
    structlog.get_logger().exception("it failed")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_trace_shows_where_it_failed_and_never_the_values_of_variables(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(form=form)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."}, check=True,
    )  # fmt: skip
    assert "the broker said no" in done.stderr
    assert "connect" in done.stderr
    assert "hush-hush" not in done.stderr
