"""Output that goes on until somebody has enough."""

import errno
import json
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click
import yaml

from orchestrator.cli import render
from orchestrator.history_tail import HistoryTail, Read
from state.errors import StoreUnavailable
from state.model.entities import Event
from streaming.clocks import Clock


@contextmanager
def until_enough() -> Iterator[None]:
    """Ends on SIGINT, on SIGTERM, and when the reader of its output has gone."""
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
    """Print data at once. Raises ``OSError`` also when the reader has gone: ``until_enough`` tells them apart."""
    click.echo(render.in_letters_of(sys.stdout, text), nl=newline)
    sys.stdout.flush()


def wait(clock: Clock, seconds: float) -> None:
    """Let time pass. Raises ``BrokenPipeError`` when what is printed goes into a pipe whose reader has gone.

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
        raise BrokenPipeError(errno.EPIPE, "the reader of the output has gone")


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

    ``is_kept`` tells whether an event is too young to have been pruned.

    One line an event: values in columns for people, tabs for TSV, one object a line for JSON, one document for YAML.
    """
    tail, begun, away = HistoryTail(read, restored=_talk_of_restored, is_kept=is_kept), False, False
    with until_enough():
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
            wait(clock, LOOK_SECONDS)


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
    cells = [render.cell(row.get(column), blank="" if output == "tsv" else "-") for column in columns]
    return ("\t" if output == "tsv" else "  ").join(cells)
