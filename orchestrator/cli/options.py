"""Flags that several verbs share, in one wording."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from orchestrator.cli.world import World
from orchestrator.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A length of time to wait. Nothing is before or after ``nan``: a wait for it would never end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


output: Callable[[Command], Command] = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "tsv"]),
    default="table",
    show_default=True,
    help="Tables for people, the rest for programs.",
)

reason: Callable[[Command], Command] = click.option(
    "--reason", default="", metavar="TEXT", help="Why; it is kept in the history."
)


def check_one_or_all(world: World, query: str | None, *, every: bool) -> None:
    """Exactly one of a declared query and ``--all``. Raises ``UsageError`` and ``UnknownName``."""
    if (query is None) is not every:
        raise UsageError("name one query, or say --all")
    if query is not None:
        world.query(query)


def check_some_or_all(world: World, queries: tuple[str, ...], *, every: bool) -> None:
    """Declared queries, or ``--all``. Raises ``UsageError`` and ``UnknownName``."""
    if bool(queries) is every:
        raise UsageError("name one query or several, or say --all")
    for query in queries:
        world.query(query)


log: Callable[[Command], Command] = click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="TIDEOVER_LOG",
    show_envvar=True,
    help="Lines for people, or one JSON object a line; on stderr.",
)
