"""`python -m chaos`."""

import sys

from chaos.cli import main
from lab.interrupt import heed_signals

if __name__ == "__main__":
    heed_signals()
    sys.exit(main())
