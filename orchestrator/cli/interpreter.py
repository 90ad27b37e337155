"""How Python itself runs in our processes: its threads' turns, and what its collector of garbage walks through."""

import gc
import sys

_SWITCH_SECONDS = 0.0005
"""How long one thread computes while another waits to. With Python's own 5 ms an operation pays that at each of its
hundred steps in the store while others move. The last of 25 was through 0.5 s later (``bench.crowd``)."""


def share_turns() -> None:
    """Let threads take turns ten times as often as by default."""
    sys.setswitchinterval(_SWITCH_SECONDS)


def keep_loaded() -> None:
    """Take all that is loaded by now for good: modules are most of our objects, and none of them is ever garbage.

    The collector walks all old objects each time their number has grown by a quarter, and a look-up of thousands of
    partitions makes it do so more than once.
    """
    if not gc.get_freeze_count():
        gc.freeze()
