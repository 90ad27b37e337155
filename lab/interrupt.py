"""How a long command is ended, so that the brokers, drivers and containers that it has started end with it."""

import signal
import sys
from collections.abc import Callable


def handle_signals() -> None:
    """Let SIGTERM end this process as Ctrl-C does, by ``KeyboardInterrupt``.

    Ctrl-C and its signal, too, where a shell has made this process deaf to them, as it does with what it starts in the
    background. A deaf process has deaf children.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def run_interruptible(main: Callable[[], int]) -> int:
    """The exit code of ``main``; 2 and one line where Ctrl-C or SIGTERM ended it."""
    handle_signals()
    try:
        return main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 2
