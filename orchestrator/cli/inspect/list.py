"""``list``: every query in a line."""

from collections.abc import Mapping, Sequence

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.selection import labels, said
from orchestrator.decide.desk.status import Label, QueryStatus, has_labels
from orchestrator.facts.status import status_now
from orchestrator.shapes import json_shapes

QUERY_COLUMNS = (
    "query", "cluster", "runner", "epoch", "state", "batch", "progress_age_seconds", "operation", "automatic", "ready",
    "home", "away_since", "request", "labels",
)  # fmt: skip


def table_columns(queries: Sequence[QueryStatus]) -> tuple[str, ...]:
    """For people: home in one column, which is narrow while every query is there; labels only where there are some."""
    left_out = {"away_since"} if any(each.labels for each in queries) else {"away_since", "labels"}
    return tuple("away" if name == "home" else name for name in QUERY_COLUMNS if name not in left_out)


def table_row(query: QueryStatus, row: Mapping[str, object]) -> Mapping[str, object]:
    """One query's row for people."""
    return {**row, "away": query.away, "labels": said(tuple(query.labels.items()))}


@click.command("list")
@labels
@click.option(
    "--cluster",
    metavar="CLUSTER",
    shell_complete=context.complete_cluster,
    help="Only queries that are on CLUSTER now.",
)
@click.option("--not-ready", is_flag=True, help="Only queries that could not fail over now, or of which it is unknown.")
@context.output
@pass_context
def list_queries(ctx: Context, labels: tuple[Label, ...], cluster: str | None, not_ready: bool, output: str) -> None:
    """List the queries: where each runs and how long ago it last made progress.

    A query is away from home while its cluster is not its first one: away_since is when it was moved away. ready is
    what the last check of a controller found; tideover check QUERY looks now, and says why.

    \b
    Examples:
      tideover list
      tideover list --cluster west --not-ready
      tideover list --label team=billing -o json
    """
    if cluster is not None:
        ctx.known_cluster(cluster)
    status = status_now(ctx.store, ctx.settings)
    queries = [
        each
        for each in status.queries
        if has_labels(each.labels, labels)
        and cluster in {None, each.cluster}
        and not (not_ready and each.ready)
    ]  # fmt: skip
    rows: list[Mapping[str, object]] = [json_shapes.list_row(each, status.at) for each in queries]
    if output in {"table", "tsv"}:
        rows = [table_row(*each) for each in zip(queries, rows, strict=True)]
    render.show(rows, output, columns=table_columns(queries) if output == "table" else QUERY_COLUMNS)
    if len(queries) < len(status.queries):
        render.talk(f"{len(queries)} of {len(status.queries)} queries")
