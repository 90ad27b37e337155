"""``list``: every query in a line."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.facts.status import status_now
from orchestrator.shapes import json_shapes

QUERY_COLUMNS = (
    "query", "cluster", "runner", "epoch", "state", "batch", "progress_age_seconds", "operation", "automatic", "ready",
    "home", "away_since", "request",
)  # fmt: skip

TABLE_COLUMNS = tuple("away" if name == "home" else name for name in QUERY_COLUMNS if name != "away_since")
"""For people: both in one column, which is narrow while every query is at home."""


@click.command("list")
@context.output
@pass_context
def list_queries(ctx: Context, output: str) -> None:
    """List the queries: where each runs and how long ago it last made progress.

    A query is away from home while its cluster is not its first one: away_since is when it was moved away.

    \b
    Examples:
      tideover list
      tideover list -o json
    """
    status = status_now(ctx.store, ctx.settings)
    rows = [json_shapes.list_row(each, status.at) for each in status.queries]
    if output == "table":
        rows = [{**row, "away": query.away} for row, query in zip(rows, status.queries, strict=True)]
    render.show(rows, output, columns=TABLE_COLUMNS if output == "table" else QUERY_COLUMNS)
