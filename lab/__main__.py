"""`python -m lab`."""

import sys

from lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
