"""``show``: one query."""

from collections.abc import Mapping, Sequence

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.list import say_gone, show_queries
from orchestrator.decide.desk.readiness_sampling import proven_text, sentence
from orchestrator.decide.desk.status import QueryStatus
from orchestrator.decide.gates.automatic import cooldown_text, paused_text
from orchestrator.decide.gates.meaning import columns_text
from orchestrator.decide.operation.drill import drill_text
from orchestrator.decide.replication_age import COPY_COLUMNS, replication_rows, replication_text
from orchestrator.decide.times import instant, iso, length
from orchestrator.facts.status import status_now
from orchestrator.shapes import operation_shapes, query_shapes, request_shapes
from orchestrator.shapes.status import NEWEST, query_json
from state.model.entities import EVERY_KIND

MOVE_COLUMNS = (
    "id", "kind", "from", "to", "started_at", "outcome", "exposure_records", "replay_records", "sentence",
)  # fmt: skip


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@context.output
@pass_context
def show(ctx: Context, query: str, output: str) -> None:
    """Show one query: assignment, last report, runners, positions, age of its copies, operations.

    Reads only the store. The age of the standby's copies is what the controller last sampled, usually within the last
    minute. It is measured by the largest timestamps, which need not be those of the newest records.

    \b
    Examples:
      tideover show revenue
      tideover show revenue -o yaml
    """
    settings, store = ctx.query(query), ctx.store
    status = status_now(store, ctx.settings)
    now, shown = status.at, next(each for each in status.queries if each.query == query)
    sampled = shown.readiness
    runners = [query_shapes.runner_row(fact, now) for fact in store.runners() if fact.runner in settings.runners]
    positions = [_with_time(row) for row in query_shapes.position_rows(store.positions(query, rings=False))]
    newest = store.operations(query=query, limit=NEWEST, kinds=EVERY_KIND)
    operations = [operation_shapes.move_row(operation) for operation in newest]
    replication = store.replication(query)
    requests = [request_shapes.request_row(request) for request in shown.requests]
    if output in {"json", "yaml"}:
        value = query_json(store, settings, shown, now)
        render.document(value, output)
        return
    show_queries([shown], now, output)
    say_gone(status)
    if output == "tsv":
        return
    render.say(f"\ncheckpoint  {shown.checkpoint or '-'}")
    _say_run(shown)
    if shown.pause is not None:
        render.say(f"paused      {paused_text(shown.pause)}")
    if shown.cooldown is not None:
        render.say(f"cool-down   {cooldown_text(shown.cooldown, query)} ({length(shown.cooldown.until - now)} left)")
    if sampled is not None:
        render.say(f"readiness   {sentence(sampled)} ({iso(sampled.sampled_at)})")
        if (proven := proven_text(sampled)) is not None:
            render.say(f"resume      {proven} {length(now - sampled.sampled_at)} ago")
    if shown.drill is not None:
        render.say(f"last drill  {drill_text(shown.drill)}")
    if shown.report is not None and shown.report.columns:
        render.say(f"columns     {columns_text(shown.report.columns)}")
    if replication is not None:
        render.say(f"replication {replication_text(replication, now)}")
    copies = replication_rows(replication) if replication is not None else []
    _say_table("", runners)
    _say_table("", positions)
    _say_table("copies\n", copies, COPY_COLUMNS)
    _say_table("last moves\n", operations, MOVE_COLUMNS)
    _say_table("requests that have not begun\n", requests)


def _with_time(row: Mapping[str, object]) -> dict[str, object]:
    """A position with its time as people read it, in the same place."""
    at = row["timestamp_ms"]
    time = instant(at) if isinstance(at, int) else None
    return dict(("timestamp", time) if name == "timestamp_ms" else (name, value) for name, value in row.items())


def _say_run(shown: QueryStatus) -> None:
    """What is wrong with its run, if anything is."""
    error = (shown.error or "").partition("\n")[0]
    for name, text in (("error", error), ("unfinished", shown.unfinished), ("silent", shown.silent)):
        if text:
            render.say(f"{name:11} {text}")


def _say_table(heading: str, found: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> None:
    """Some columns, or all; nothing where there is nothing."""
    if found:
        render.say(f"\n{heading}{tables.table(found, columns or list(found[0]))}")
