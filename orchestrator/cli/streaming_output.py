"""Output that continues until the reader has enough."""

import errno
import json
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import NoReturn

import click
import yaml

from orchestrator.cli import render, tables
from orchestrator.history_tail import HistoryTail, Read
from state.errors import StoreUnavailable
from state.model.entities import Event
from streaming.clocks import Clock


class OutputClock:
    """A clock whose waits end once no more output is wanted: who prints only when something happens would else stay.

    An interrupt is remembered, too: one that meets Python in the callback of a weak reference is dropped there, and
    libraries have such callbacks, as SQLAlchemy's where a connection fails.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_over = False

    def interrupt(self, _number: int, _frame: FrameType | None) -> NoReturn:
        """A handler of signals. Raises ``KeyboardInterrupt``."""
        self._is_over = True
        raise KeyboardInterrupt

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        """Let time pass.

        Raises ``KeyboardInterrupt`` after an interrupt, and ``BrokenPipeError`` when what is printed goes into a pipe
        whose reader has gone.
        """
        if self._is_over:
            raise KeyboardInterrupt
        self._clock.wait(seconds)
        try:
            written = sys.stdout.fileno()
        except (OSError, ValueError):  # not a file: there is nothing to look at
            return
        look = select.poll()
        look.register(written, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0)):
            raise BrokenPipeError(errno.EPIPE, "the reader of the output has gone")


@contextmanager
def until_enough(clock: Clock) -> Iterator[OutputClock]:
    """Ends on SIGINT, on SIGTERM, and when the reader of its output has gone; gives the clock to wait by."""
    waiting = OutputClock(clock)
    handled = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
        handled.append(signal.SIGINT)
    before = {number: signal.signal(number, waiting.interrupt) for number in handled}
    try:
        yield waiting
    except KeyboardInterrupt:
        return
    except OSError as error:
        if error.errno not in render.NO_READER:
            raise
        sys.stdout = None  # the interpreter would flush into the closed pipe and complain
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say(text: str, *, newline: bool = True) -> None:
    """Print data at once. Raises ``OSError`` also when the reader has gone: ``until_enough`` distinguishes them."""
    click.echo(render.in_letters_of(sys.stdout, text), nl=newline)
    sys.stdout.flush()


LOOK_SECONDS = 0.5

Row = Mapping[str, object]


def follow(
    read: Read,
    shape: Callable[[Event], Row],
    *,
    newest: int,
    columns: Sequence[str],
    output: str,
    clock: Clock,
    is_kept: Callable[[Event], bool],
) -> None:
    """Print the ``newest`` events, then every one that comes.

    Returns on SIGINT, on SIGTERM, and when the reader of its output has gone.

    ``is_kept`` says whether an event is too young to have been pruned.

    One line an event: values in columns for people, tabs for TSV, one object a line for JSON, one document for YAML.
    """
    tail, begun, away = HistoryTail(read, restored=_talk_of_restored, is_kept=is_kept), False, False
    with until_enough(clock) as waiting:
        if output == "tsv":
            say("\t".join(columns))
        while True:
            try:
                events = tail.news() if begun else tail.begin(newest)
                begun, away = True, False
            except StoreUnavailable as error:
                if not away:
                    render.talk(f"the store does not answer; waiting for it, queries run on: {error}")
                events, away = (), True
            for event in events:
                say(_line(shape(event), columns, output))
            waiting.wait(LOOK_SECONDS)


def _talk_of_restored(lost: Event) -> None:
    render.talk(
        f"the store was restored from a backup: it no longer has line {lost.sequence}, shown above. "
        f"What was written after {lost.at:%Y-%m-%d %H:%M:%S} UTC follows"
    )


def _line(row: Row, columns: Sequence[str], output: str) -> str:
    if output == "json":
        return json.dumps(row, ensure_ascii=False)
    if output == "yaml":
        return "---\n" + yaml.safe_dump(dict(row), sort_keys=False, allow_unicode=True).rstrip()
    cells = [tables.cell(row.get(column), blank="" if output == "tsv" else "-") for column in columns]
    return ("\t" if output == "tsv" else "  ").join(cells)
