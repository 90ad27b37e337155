"""`python -m chaos`."""

import sys

from chaos.cli import main
from lab.interrupt import run_interruptible

if __name__ == "__main__":
    sys.exit(run_interruptible(main))
