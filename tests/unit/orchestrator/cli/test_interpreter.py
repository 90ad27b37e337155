"""What a process of ours needs of Python once, when it has loaded what it needs."""

import subprocess
import sys

SCRIPT = """
import gc, sys
from orchestrator.cli.interpreter import keep_loaded, share_turns
share_turns()
keep_loaded()
first = gc.get_freeze_count()
more = [[] for _ in range(1000)]
keep_loaded()
print(sys.getswitchinterval(), first > 1000, gc.get_freeze_count() <= first)
"""


def test_threads_take_turns_sooner_and_what_is_loaded_is_walked_no_more() -> None:
    """In a process of its own: what is kept is kept to its end."""
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout.split() == ["0.0005", "True", "True"]
