"""``list``: every query in a line."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.selection import labels, said
from orchestrator.decide.desk.status import Label, QueryStatus, Status, gone_lines, has_labels
from orchestrator.decide.times import age
from orchestrator.facts.status import status_now
from orchestrator.shapes import query_shapes

QUERY_COLUMNS = (
    "query", "cluster", "runner", "epoch", "state", "batch", "progress_age_seconds", "operation", "automatic", "ready",
    "home", "away_since", "request", "labels",
)  # fmt: skip


_NARROW = ("query", "cluster", "state", "progress", "automatic", "ready", "away", "operation", "request", "labels")
_OFTEN_EMPTY = frozenset({"operation", "request", "labels"})


def show_queries(queries: Sequence[QueryStatus], at: datetime, output: str) -> None:
    """A table of queries for people, in which ages are rounded and columns without a value left out, or TSV."""
    rows = [_row(each, at) for each in queries]
    if output == "table":
        columns = [name for name in _NARROW if name not in _OFTEN_EMPTY or any(row[name] for row in rows)]
        render.show(rows, output, columns=columns)
    else:
        render.show(rows, output, columns=QUERY_COLUMNS)


def say_gone(status: Status) -> None:
    """What a person has to know before anything else: a cluster is gone, and queries are there."""
    for line in gone_lines(status):
        render.talk(line)


def _row(query: QueryStatus, at: datetime) -> Mapping[str, object]:
    return {
        **query_shapes.list_row(query, at),
        "progress": age(at - query.progressed_at) if query.progressed_at else None,
        "away": (age(at - query.away_since) if query.away_since else "yes") if query.is_away else "",
        "labels": said(tuple(query.labels.items())),
    }


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

    A query is away from home while its cluster is not its first one. Its progress is the age of its last batch. Column
    ready is what the last check of a controller found; tideover check QUERY looks now, and says why. Option -o wide
    adds runner, epoch, batch and exact times.

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
    if output in {"json", "yaml"}:
        render.document([query_shapes.list_row(each, status.at) for each in queries], output)
    else:
        show_queries(queries, status.at, output)
        say_gone(status)
    if len(queries) < len(status.queries):
        render.talk(f"{len(queries)} of {len(status.queries)} queries")
