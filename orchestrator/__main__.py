"""``python -m orchestrator``: the same as the console script ``tideover``."""

import sys

from orchestrator.cli import main

if __name__ == "__main__":
    sys.exit(main())
