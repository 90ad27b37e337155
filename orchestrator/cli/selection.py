"""Which queries a verb is about: named, all, or those with a label."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from orchestrator.cli.context import Context
from orchestrator.config.load import load
from orchestrator.decide.desk.status import Label, has_labels, known_labels
from orchestrator.errors import UsageError
from state.errors import TideoverError
from state.settings.keys import Tideover

Command = TypeVar("Command", bound=Callable[..., Any])


def _parsed(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[Label, ...]:
    found = []
    for text in given:
        key, _, value = text.partition("=")
        if not (key and value):
            raise click.BadParameter(f"{text!r} is not a label: write KEY=VALUE, such as team=billing", ctx, option)
        found.append((key, value))
    return tuple(dict.fromkeys(found))


def _begun(ctx: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """What the shell offers; nothing while the configuration has mistakes."""
    try:
        known = known_labels(load(ctx.find_root().params.get("config")).settings)
    except TideoverError:
        return []
    return [each for each in known if each.startswith(incomplete)]


def labels(command: Command) -> Command:
    """Only queries with a label."""
    return click.option(
        "--label", "labels", metavar="KEY=VALUE", multiple=True, callback=_parsed, shell_complete=_begun,
        help="Only queries with this label. May be repeated: all of them must match.",
    )(command)  # fmt: skip


def labelled(settings: Tideover, wanted: tuple[Label, ...]) -> tuple[str, ...]:
    """The declared queries that have all of these labels, in their order. Raises ``UsageError`` where none has."""
    found = tuple(name for name, query in settings.queries.items() if has_labels(query.labels, wanted))
    if not found:
        known = ", ".join(known_labels(settings)) or "none"
        raise UsageError(f"no query has the label {said(wanted)}", hint=f"labels of queries: {known}")
    return found


def said(wanted: tuple[Label, ...]) -> str:
    """Labels as they are typed."""
    return " ".join(f"{key}={value}" for key, value in wanted)


def select(ctx: Context, queries: tuple[str, ...], *, every: bool, labels: tuple[Label, ...] = ()) -> tuple[str, ...]:
    """Exactly one of declared queries, ``--all`` and ``--label``. Raises ``UsageError`` and ``UnknownName``.

    Empty where ``--all`` is said and nothing is declared.
    """
    if [bool(queries), every, bool(labels)].count(True) != 1:
        raise UsageError("name one or more queries, or use --all, or --label KEY=VALUE")
    for query in queries:
        ctx.query(query)
    if labels:
        return labelled(ctx.settings, labels)
    return tuple(dict.fromkeys(queries)) or tuple(ctx.settings.queries)


def check_one_or_all(ctx: Context, query: str | None, *, every: bool) -> None:
    """Exactly one of a declared query and ``--all``. Raises ``UsageError`` and ``UnknownName``."""
    if (query is None) is not every:
        raise UsageError("name one query, or use --all")
    if query is not None:
        ctx.query(query)


def check_some_or_all(ctx: Context, queries: tuple[str, ...], *, every: bool) -> None:
    """Declared queries, or ``--all``. Raises ``UsageError`` and ``UnknownName``."""
    if bool(queries) is every:
        raise UsageError("name one or more queries, or use --all")
    for query in queries:
        ctx.query(query)
