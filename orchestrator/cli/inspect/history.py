"""``history``: what happened, who did it and why."""

from collections.abc import Sequence

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, parsed_time, pass_context
from orchestrator.cli.streaming_output import follow
from orchestrator.errors import UnknownName
from orchestrator.shapes import operation_shapes
from state.model.entities import Event
from state.model.timeline import instant_of
from streaming.clocks import SystemClock

SEE_HISTORY = "tideover history lists operations"
EVENT_COLUMNS = ("at", "kind", "query", "operation", "epoch", "actor", "text")
_NARROW = ("time", "query", "kind", "text")


@click.command()
@click.argument("query", required=False, shell_complete=context.complete_query)
@click.option("--operation", metavar="ID", help="Only this operation.")
@click.option("--kind", metavar="KIND", help="Only lines of this kind, such as verdict, pause or committing.")
@click.option("--since", metavar="TIME", help="Only from TIME on.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    help="At most this many lines, the newest.",
)
@click.option("-f", "--follow", "following", is_flag=True, help="Keep printing new lines until ^C.")
@context.output
@pass_context
def history(
    ctx: Context,
    query: str | None,
    operation: str | None,
    kind: str | None,
    since: str | None,
    limit: int,
    following: bool,
    output: str,
) -> None:
    """Show what happened, oldest first: when, what, who and why. With -f, JSON is one object per line.

    TIME is milliseconds since the epoch, ISO 8601 with a zone, or -15m before now.

    \b
    Examples:
      tideover history
      tideover history revenue --limit 20
      tideover history --since -1h --kind verdict
      tideover history --operation 261121-083525-3fa92c71 -o json
      tideover history -f --limit 5
    """
    if query is not None and ctx.store.assignment(query) is None and not ctx.store.history(query=query, limit=1):
        ctx.query(query)
    if operation is not None and ctx.store.operation(operation) is None:
        raise UnknownName(f"the store knows no operation {operation!r}", hint=SEE_HISTORY)

    first = None if since is None else instant_of(parsed_time(ctx, since))

    def read(after: int, newest: int) -> Sequence[Event]:
        return ctx.store.history(query=query, operation=operation, kind=kind, since=first, after=after, limit=newest)

    if following:
        kept = ctx.settings.retention.history
        follow(
            read, operation_shapes.event_row, newest=limit, columns=EVENT_COLUMNS, output=output, clock=SystemClock(),
            is_kept=lambda event: ctx.store.now() - event.at < kept,
        )  # fmt: skip
        return
    events = read(0, limit)
    if not events:
        narrow = kind or since or query or operation
        render.talk(
            "no line of the history matches; tideover history shows all kinds" if narrow
            else "the history is empty: no controller, runner or verb has done anything yet"
        )  # fmt: skip
    rows = [operation_shapes.event_row(event) for event in events]
    if output == "table":
        times = [{"time": f"{event.at:%m-%d %H:%M:%S}"} for event in events]
        rows = [row | time for row, time in zip(rows, times, strict=True)]
    render.show(rows, output, columns=_NARROW if output == "table" else EVENT_COLUMNS)
