"""`python -m chaos`."""

import sys

from chaos.cli import main
from lab.interrupt import handle_signals

if __name__ == "__main__":
    handle_signals()
    sys.exit(main())
