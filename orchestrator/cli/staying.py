"""What stays until somebody has enough: lines that a reader gets at once, and an end without a complaint."""

import errno
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from orchestrator.cli import render
from orchestrator.clock import Clock


@contextmanager
def until_enough() -> Iterator[None]:
    """Ends on SIGINT, on SIGTERM, and when nobody reads any more: that is how staying ends."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    except OSError as error:
        if error.errno not in render.NOBODY_READS:
            raise
        sys.stdout = None  # the interpreter would flush into the closed pipe and complain
    finally:
        signal.signal(signal.SIGTERM, before)


def say(text: str, *, newline: bool = True) -> None:
    """Print data at once. Raises ``OSError`` also when nobody reads: ``until_enough`` knows which."""
    click.echo(render.in_letters_of(sys.stdout, text), nl=newline)
    sys.stdout.flush()


def wait(clock: Clock, seconds: float) -> None:
    """Let time pass. Raises ``BrokenPipeError`` when what is printed goes into a pipe that nobody reads any more.

    Who prints only when something happens would else stay for ever.
    """
    clock.wait(seconds)
    try:
        written = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file: there is nothing to look at
        return
    look = select.poll()
    look.register(written, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0)):
        raise BrokenPipeError(errno.EPIPE, "nobody reads what is printed")
