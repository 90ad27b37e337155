"""How a long command ends when a person or a supervisor ends it."""

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import sys, time
from lab.interrupt import run_interruptible

def main():
    try:
        print("up", flush=True)
        time.sleep(60)
    finally:
        print("down", flush=True)

sys.exit(run_interruptible(main))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_in_order_and_without_a_traceback(number: signal.Signals) -> None:
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        program.send_signal(number)
        output, errors = program.communicate(timeout=60)
    assert (output, errors, program.returncode) == ("down\n", "interrupted\n", 2)
