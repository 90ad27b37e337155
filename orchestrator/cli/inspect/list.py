"""``list``: every query in a line."""

import click

from orchestrator.cli import context, json_shapes, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.facts.status import status_now

QUERY_COLUMNS = (
    "query", "cluster", "runner", "epoch", "state", "batch", "progress_age_seconds", "operation", "automatic", "ready",
    "request",
)  # fmt: skip


@click.command("list")
@context.output
@pass_context
def list_queries(ctx: Context, output: str) -> None:
    """List the queries: where each runs and how long ago it last made progress.

    \b
    Examples:
      tideover list
      tideover list -o json
    """
    status = status_now(ctx.store, ctx.settings)
    rows = [json_shapes.list_row(each, status.at) for each in status.queries]
    render.show(rows, output, columns=QUERY_COLUMNS)
