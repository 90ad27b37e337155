"""``timeline``: where a query stood at which time, from the store alone."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.decide.times import instant, parse_time
from orchestrator.errors import UsageError
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch, instant_of

Row = dict[str, object]
Wanted = Callable[[SourcePartition], bool]

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
        at_ms = _time(ctx, time)
        stretch = ctx.store.timeline_at(query, instant_of(at_ms))
        found = [] if stretch is None else _standing(stretch, at_ms, wanted)
    else:
        kept = ctx.store.timeline(query, since=None if since is None else instant_of(_time(ctx, since)))
        found = [row for stretch in kept for row in _steps(stretch, wanted)] if every_step else _spans(kept, wanted)
    if not found:
        render.talk(f"the store has no position of {query}{'' if time is None else ' at that time'}")
    render.show(found, output, columns=SPAN_COLUMNS if time is None and not every_step else AT_COLUMNS)


def _time(ctx: Context, text: str) -> int:
    """Milliseconds since the epoch; what counts back from now does so by the clock that stamped the timeline."""
    try:
        return parse_time(text, ctx.store.now())
    except ValueError as error:
        raise UsageError(str(error)) from None


def _standing(stretch: Stretch, at_ms: int, wanted: Wanted) -> list[Row]:
    """One row a partition: the last step that is not after a time."""
    steps = stretch.steps()
    moment = steps.at(at_ms)
    return [] if moment is None else list(_rows(stretch, steps.lanes, moment, wanted))


def _steps(stretch: Stretch, wanted: Wanted) -> Iterator[Row]:
    """One row a partition and step, in the order of time."""
    steps = stretch.steps()
    for moment in steps.moments:
        yield from _rows(stretch, steps.lanes, moment, wanted)


def _rows(stretch: Stretch, lanes: Iterable[SourcePartition], moment: Moment, wanted: Wanted) -> Iterator[Row]:
    columns = (lanes, moment.offsets, moment.timestamps, moment.disorders)
    for lane, offset, timestamp_ms, disorder_ms in zip(*columns, strict=True):
        if not wanted(lane):
            continue
        known = timestamp_ms != NO_TIME
        yield {
            **_place(stretch, lane),
            "at": instant(moment.at_ms),
            "offset": offset,
            "timestamp_ms": timestamp_ms if known else None,
            "disorder_ms": disorder_ms if known else None,
        }


def _place(stretch: Stretch, lane: SourcePartition) -> Row:
    return {**lane._asdict(), "epoch": stretch.epoch, "cluster": stretch.cluster}


@dataclass
class _Span:
    """From where to where a partition was read under one epoch."""

    since_ms: int
    first_offset: int
    until_ms: int = 0
    steps: int = 0
    offset: int = 0
    timestamp_ms: int | None = None
    disorder_ms: int | None = None

    def grow(self, at_ms: int, offset: int, timestamp_ms: int, disorder_ms: int) -> None:
        """Add a step. The disorder is the largest distance from the largest time so far back to a later record's."""
        self.until_ms, self.offset, self.steps = at_ms, offset, self.steps + 1
        if timestamp_ms != NO_TIME:
            self.timestamp_ms = max(timestamp_ms, self.timestamp_ms or 0)
            self.disorder_ms = max(self.disorder_ms or 0, self.timestamp_ms - timestamp_ms + disorder_ms)

    def row(self) -> Row:
        times = {"since": instant(self.since_ms), "until": instant(self.until_ms), "steps": self.steps}
        offsets = {"first_offset": self.first_offset, "offset": self.offset}
        return {**times, **offsets, "timestamp_ms": self.timestamp_ms, "disorder_ms": self.disorder_ms}


def _spans(stretches: Iterable[Stretch], wanted: Wanted) -> list[Row]:
    """One row a partition of each epoch."""
    places: dict[tuple[int, str, SourcePartition], Row] = {}
    found: dict[tuple[int, str, SourcePartition], _Span] = {}
    for stretch in stretches:
        lanes, moments = stretch.steps()
        for index, lane in enumerate(lanes):
            if wanted(lane):
                key = (stretch.epoch, stretch.cluster, lane)
                places[key] = _place(stretch, lane)
                span = found.setdefault(key, _Span(moments[0].at_ms, moments[0].offsets[index]))
                for at_ms, offsets, timestamps, disorders in moments:
                    span.grow(at_ms, offsets[index], timestamps[index], disorders[index])
    return [places[key] | span.row() for key, span in found.items()]
