"""Flags that several verbs share, in one wording."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

output: Callable[[Command], Command] = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "tsv"]),
    default="table",
    show_default=True,
    help="Tables for people, the rest for programs.",
)
