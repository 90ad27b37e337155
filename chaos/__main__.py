"""`python -m chaos`."""

import sys

from chaos.cli import main

if __name__ == "__main__":
    sys.exit(main())
