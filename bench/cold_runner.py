"""``tideover run`` without its warm-up: the product has no switch to leave it out, and the bench needs the difference.

Arguments are those of ``tideover``.
"""

import sys
from unittest.mock import patch

from orchestrator.cli import main
from streaming.spark.runner import service


def _stay_cold(*_: object) -> None:
    """Stand in for the warm-up."""


if __name__ == "__main__":
    with patch.object(service, "begin_warmup", _stay_cold):
        sys.exit(main())
