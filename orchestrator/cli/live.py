"""``watch``: how things stand, redrawn for a person, told at each change to a program."""

import json
import os
import shutil
import sys
from datetime import timedelta
from typing import Protocol

import click

from orchestrator.cli import picture, render
from orchestrator.cli.staying import say, until_enough, wait
from orchestrator.cli.world import World, pass_world
from orchestrator.clock import Clock, SystemClock
from orchestrator.decide.situation import Situation
from orchestrator.survey import Survey
from state.errors import StoreUnavailable
from state.written import parse_duration

_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAST, _MOST = timedelta(milliseconds=100), timedelta(hours=1)


def _interval(_context: click.Context, _option: click.Parameter, value: str) -> timedelta:
    """A length of time as the configuration writes it."""
    try:
        interval = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not _LEAST <= interval <= _MOST:
        raise click.BadParameter("an interval lies between 100ms and 1h")
    return interval


@click.command()
@click.option(
    "--interval", callback=_interval, metavar="DURATION", default="1s", show_default=True, help="Between two looks."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@pass_world
def watch(world: World, interval: timedelta, output: str) -> None:
    """Show how things stand, live, until ^C: clusters, open operations, queries, what is held back, and history.

    A terminal is redrawn; a file or a pipe gets the whole picture at each change. With -o json each
    change is one line, the whole situation as one object. A store that does not answer is waited for.

    \b
    Examples:
      tideover watch
      tideover watch --interval 250ms
      tideover watch -o json | jq -c '.clusters[] | {cluster, verdict}'
    """
    world.loaded  # noqa: B018 # a mistake in the configuration is told before anything is drawn
    on_a_terminal = output == "table" and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    display: Display = Terminal() if on_a_terminal else Changes(output)
    with until_enough():
        look_on(world, display, SystemClock(), interval.total_seconds())


class Display(Protocol):
    """Where situations are shown."""

    def show(self, situation: Situation) -> None: ...

    def store_is_away(self, why: str) -> None: ...


def look_on(world: World, display: Display, clock: Clock, seconds: float) -> None:
    """Look and show for ever."""
    survey: Survey | None = None
    while True:
        try:
            if survey is None:
                survey = Survey(world.store, world.settings, clock)
            situation = survey.take()
        except StoreUnavailable as error:
            display.store_is_away(str(error))
        else:
            display.show(situation)
        wait(clock, seconds)


class Terminal:
    """Redraws in place, from the upper left corner on, so that nothing flickers."""

    def __init__(self) -> None:
        self._last: Situation | None = None
        self._began = False

    def show(self, situation: Situation) -> None:
        self._last = situation
        width, height = shutil.get_terminal_size()
        self._draw(picture.text(situation, width=width, height=height - 1))

    def store_is_away(self, why: str) -> None:
        width, height = shutil.get_terminal_size()
        if self._last is None:
            self._draw(render.cut(f"THE STORE DOES NOT ANSWER, waiting: {why}", width))
        else:
            self._draw(picture.text(self._last, width=width, height=height - 1, away=why))

    def _draw(self, drawn: str) -> None:
        if not self._began:
            click.clear()
            self._began = True
        say(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in drawn.splitlines()) + _BELOW, newline=False)


class Changes:
    """Prints when something has changed, ages and counts apart."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._said: object = None
        self._away = False

    def show(self, situation: Situation) -> None:
        self._away = False
        value = picture.as_json(situation)
        lasting = picture.lasting(value)
        if lasting == self._said:
            return
        self._said = lasting
        say(json.dumps(value, ensure_ascii=False) if self._output == "json" else picture.text(situation) + "\n")

    def store_is_away(self, why: str) -> None:
        if not self._away:
            render.talk(f"the store does not answer, waiting: {why}")
        self._away = True
