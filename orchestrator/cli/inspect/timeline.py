"""``timeline``: what a query had read at which time, from the store alone."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, parsed_time, pass_context
from orchestrator.errors import UsageError
from orchestrator.shapes.timeline import Row, spans, standing, steps
from state.model.timeline import SourcePartition, instant_of

PLACE = ("source", "topic", "partition", "epoch", "cluster")
AT_COLUMNS = (*PLACE, "at", "offset", "timestamp_ms", "disorder_ms")
SPAN_COLUMNS = (*PLACE, "since", "until", "steps", "first_offset", "offset", "timestamp_ms", "disorder_ms")


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@click.option("--at", "time", metavar="TIME", help="Only the position at TIME.")
@click.option("--topic", metavar="TOPIC", help="Only this topic.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--since", metavar="TIME", help="Only from TIME on.")
@click.option("--steps", "every_step", is_flag=True, help="Every step, instead of one line per partition.")
@context.output
@pass_context
def timeline(
    ctx: Context,
    query: str,
    time: str | None,
    topic: str | None,
    partition: int | None,
    since: str | None,
    every_step: bool,
    output: str,
) -> None:
    """Show how far a query had read at which time. Reads only the store.

    TIME is milliseconds since the epoch, ISO 8601 with a zone, or -15m before now. The answer is the last step at or
    before TIME, and never more than the query had read by then. Offsets are those of the cluster in the same line.
    disorder_ms is by how much record timestamps went backwards.

    \b
    Examples:
      tideover timeline revenue
      tideover timeline revenue --at -2h
      tideover timeline revenue --at 2026-01-31T12:00:00Z --topic orders -o json
      tideover timeline revenue --partition 3 --since -1h --steps -o tsv
    """
    if time is not None and (every_step or since is not None):
        raise UsageError("--at cannot be combined with --since or --steps")
    if ctx.store.assignment(query) is None:
        ctx.query(query)

    def wanted(lane: SourcePartition) -> bool:
        return topic in {None, lane.topic} and partition in {None, lane.partition}

    found: list[Row]
    if time is not None:
        at_ms = parsed_time(ctx, time)
        stretch = ctx.store.timeline_at(query, instant_of(at_ms))
        found = [] if stretch is None else standing(stretch, at_ms, wanted)
    else:
        kept = ctx.store.timeline(query, since=None if since is None else instant_of(parsed_time(ctx, since)))
        found = [row for stretch in kept for row in steps(stretch, wanted)] if every_step else spans(kept, wanted)
    if not found:
        render.talk(f"the store has no position of {query}{'' if time is None else ' at that time'}")
    render.show(found, output, columns=SPAN_COLUMNS if time is None and not every_step else AT_COLUMNS)
