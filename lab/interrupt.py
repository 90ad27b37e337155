"""How a long command is ended, so that the brokers, drivers and containers that it has started end with it."""

import signal


def handle_signals() -> None:
    """Let SIGTERM end this process as Ctrl-C does, by ``KeyboardInterrupt``.

    Ctrl-C and its signal, too, where a shell has made this process deaf to them, as it does with what it starts in the
    background. A deaf process has deaf children.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
