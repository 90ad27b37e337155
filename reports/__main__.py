"""``python -m reports``: `run` makes them, `index` writes their list again and runs nothing.

Exit code 0: all are made; 1: one failed or is not whole; 2: a mistake or a changed checkout, and nothing was run.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.interrupt import run_interruptible
from reports import index
from reports.entries import chosen, counted
from reports.errors import ReportsError
from reports.making import Execute, execute, run
from reports.origin import ROOT


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT, execute: Execute = execute) -> int:
    """Run one verb and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m reports", description="The reports of docs/reports.")
    parser.add_argument("verb", choices=("run", "index"))
    parser.add_argument("--only", help="names, with commas between them, or all; default: those of two hours")
    parser.add_argument("--runs", help="how many runs of each; default: the number of the table")
    given = parser.parse_args(arguments)
    try:
        if given.verb == "index":
            index.write(root)
            return 0
        return run(root, chosen(given.only), counted(given.runs), execute=execute, say=_say)
    except ReportsError as error:
        _say(str(error))
        return 2


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(run_interruptible(main))
