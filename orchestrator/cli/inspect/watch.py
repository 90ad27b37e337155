"""``watch``: the status as text that fits a terminal, redrawn for a person, and as JSON, one line at each change."""

import json
import os
import shutil
import sys
from collections import Counter
from datetime import datetime, timedelta
from typing import Protocol

import click

from orchestrator.cli import render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.streaming_output import say, until_enough
from orchestrator.decide.desk.status import Leader, QueryStatus, Status
from orchestrator.decide.gates.automatic import cooldown_text, paused_text
from orchestrator.decide.move.plan import headline
from orchestrator.decide.times import length
from orchestrator.facts.status import StatusReader
from orchestrator.shapes.status import status_json, without_flows
from state.errors import StoreUnavailable
from state.model.cluster_status import WELL, ClusterStatus
from state.model.entities import Event, Operation
from state.settings.values import parse_duration
from streaming.clocks import Clock, SystemClock

_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAST, _MOST = timedelta(milliseconds=100), timedelta(hours=1)


def _interval(_context: click.Context, _option: click.Parameter, value: str) -> timedelta:
    """A length of time as the configuration writes it."""
    try:
        interval = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not _LEAST <= interval <= _MOST:
        raise click.BadParameter("must be between 100ms and 1h")
    return interval


@click.command()
@click.option(
    "--interval",
    callback=_interval,
    metavar="DURATION",
    default="1s",
    show_default=True,
    help="Time between two refreshes.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@pass_context
def watch(ctx: Context, interval: timedelta, output: str) -> None:
    """Show live status until ^C: clusters, open operations, what is held back, queries and history.

    A terminal is redrawn; a file or a pipe gets the whole status at each change. With -o json each change is
    one line with the whole status as one object. If the store does not answer, watch waits for it.

    \b
    Examples:
      tideover watch
      tideover watch --interval 250ms
      tideover watch -o json | jq -c '.clusters[] | {cluster, verdict}'
    """
    ctx.loaded  # noqa: B018 # a mistake in the configuration is reported before anything is drawn
    on_a_terminal = output == "table" and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    display: Display = Terminal() if on_a_terminal else Changes(output)
    with until_enough(SystemClock()) as clock:
        follow_status(ctx, display, clock, interval.total_seconds())


class Display(Protocol):
    """Where a status is shown."""

    def show(self, status: Status) -> None: ...

    def store_is_away(self, why: str) -> None: ...


def follow_status(ctx: Context, display: Display, clock: Clock, seconds: float) -> None:
    """Look and show for ever."""
    reader: StatusReader | None = None
    while True:
        try:
            if reader is None:
                reader = StatusReader(ctx.store, ctx.settings, clock)
            status = reader.read()
        except StoreUnavailable as error:
            display.store_is_away(str(error))
        else:
            display.show(status)
        clock.wait(seconds)


class Terminal:
    """Redraws in place, from the upper left corner on, so that nothing flickers."""

    def __init__(self) -> None:
        self._last: Status | None = None
        self._began = False

    def show(self, status: Status) -> None:
        self._last = status
        width, height = shutil.get_terminal_size()
        self._draw(text(status, width=width, height=height - 1))

    def store_is_away(self, why: str) -> None:
        width, height = shutil.get_terminal_size()
        if self._last is None:
            self._draw(tables.cut(f"THE STORE DOES NOT ANSWER; waiting for it, queries run on: {why}", width))
        else:
            self._draw(text(self._last, width=width, height=height - 1, away=why))

    def _draw(self, drawn: str) -> None:
        if not self._began:
            click.clear()
            self._began = True
        say(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in drawn.splitlines()) + _BELOW, newline=False)


class Changes:
    """Prints when something has changed, ages and counts apart."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._said: object = None
        self._away = False

    def show(self, status: Status) -> None:
        self._away = False
        value = status_json(status)
        lasting = without_flows(value)
        if lasting == self._said:
            return
        self._said = lasting
        say(json.dumps(value, ensure_ascii=False) if self._output == "json" else text(status) + "\n")

    def store_is_away(self, why: str) -> None:
        if not self._away:
            render.talk(f"the store does not answer; waiting for it, queries run on: {why}")
        self._away = True


QUERY_COLUMNS = ("query", "cluster", "runner", "state", "progress", "lag", "automatic", "ready", "operation", "error")
_FEWEST = 2
"""How many lines of each section are shown even where they do not fit."""
_TITLES_OF_TABLE = 2
_TITLES = 3 + _TITLES_OF_TABLE
_LEAST_BELOW = _TITLES + 2 * _FEWEST + 4
"""Lines of queries and history, and the titles above them."""
_ENDLESS = 1_000_000


def text(status: Status, *, width: int | None = None, height: int | None = None, away: str = "") -> str:
    """The whole picture, or as much of it as fits: queries that are well and old lines of history go first.

    ``away`` says why the store does not answer; the picture is then of before.
    """
    head = [_head(status, away), ""]
    head += ["CLUSTERS", *_clusters(status), ""]
    some = _ENDLESS if height is None else max(_FEWEST, (height - len(head) - _LEAST_BELOW) // 3)
    if status.operations:
        head += ["OPERATIONS", *_few([_operation(each, status.at) for each in status.operations], some), ""]
    held_back = _held_back(status)
    if held_back:
        head += ["HELD BACK", *_few(held_back, some), ""]
    failing = [
        f"  {each.target} takes none for {length(status.at - each.failing_since)}: {each.error}"
        for each in status.notices
        if each.failing_since is not None
    ]
    if failing:
        head += ["NOTICES", *_few(failing, some), ""]
    events = _events(status)
    room = _ENDLESS if height is None else height - len(head) - _TITLES
    queries = _queries(status, max(_FEWEST, room - min(len(events), _FEWEST)))
    reported = len(events) if height is None else max(_FEWEST, room - len(queries) + _TITLES_OF_TABLE)
    lines = [*head, "QUERIES", *queries, "", "HISTORY", *(events[-reported:] or ["  no events yet"])]
    return "\n".join(line if width is None else tables.cut(line, width) for line in lines[:height])


def _head(status: Status, away: str) -> str:
    at = f"{status.at:%Y-%m-%d %H:%M:%S} UTC"
    if away:
        return f"THE STORE DOES NOT ANSWER: {away}; last status, from {at}"
    return f"{at}   {_leader(status.leader)}"


def _leader(leader: Leader | None) -> str:
    if leader is None:
        return "NO CONTROLLER LEADS: nothing is decided until one does; start one with tideover control"
    host, _, rest = leader.holder.partition("/")
    process = f"{host}, pid {rest.split(':')[2]}" if rest.count(":") == 3 else leader.holder
    who = "a command" if leader.name is None else f"controller {leader.name}"
    return f"{who} leads ({process}), term {leader.term}"


def _clusters(status: Status) -> list[str]:
    rows = [_cluster(name, believed, status) for name, believed in status.clusters.items()]
    names, verdicts, ages = (max(len(row[column]) for row in rows) for column in range(3))
    return [
        f"  {name:<{names}}  {verdict:<{verdicts}}  {age:<{ages}}  {reason}".rstrip()
        for name, verdict, age, reason in rows
    ]


def _cluster(name: str, believed: ClusterStatus | None, status: Status) -> tuple[str, str, str, str]:
    if believed is None:
        return name, "-", "", "not probed yet"
    old = status.is_stale(believed)
    reasons = (
        (f"this verdict is {length(status.at - believed.decided_at)} old; no controller updates it",) if old else ()
    )
    verdict = f"{believed.verdict}?" if old else believed.verdict.value
    return name, verdict, f"for {length(status.at - believed.since)}", "; ".join((*reasons, *believed.reasons))


def _operation(operation: Operation, at: datetime) -> str:
    what = headline(operation.kind, operation.query, operation.source, operation.target, operation.parameters)
    began = f"began at {operation.started_at:%H:%M:%S} UTC, {length(at - operation.started_at)} ago"
    return f"  {operation.id}  {what}: {operation.phase}, {began}: {operation.sentence}"


def _held_back(status: Status) -> list[str]:
    pauses = [paused_text(pause) + _left(pause.until, status.at) for pause in status.pauses]
    cooldowns = [
        cooldown_text(each, query) + _left(each.until, status.at) for query, each in sorted(status.cooldowns.items())
    ]
    return [f"  {line}" for line in (*pauses, *cooldowns, *status.waiting)]


def _left(until: datetime | None, at: datetime) -> str:
    """The countdown to the end of a pause or a cool-down."""
    return "" if until is None else f" ({length(until - at)} left)"


def _few(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], f"  ... and {len(lines) - most + 1} more"]


def _queries(status: Status, room: int) -> list[str]:
    """A table of this many rows at most; queries that need attention come first."""
    ordered = sorted(status.queries, key=lambda each: (status.is_well(each), each.query))
    shown = ordered if len(ordered) <= room else ordered[: room - 1]
    columns = QUERY_COLUMNS if any(each.error for each in shown) else QUERY_COLUMNS[:-1]
    lines = tables.table([_row(each, status.at) for each in shown], columns, indent="  ", is_plain=True).splitlines()
    rest = ordered[len(shown) :]
    if rest:
        lines.append(f"  ... and {len(rest)} more{_of_rest(rest, status)}")
    return lines


def _of_rest(rest: list[QueryStatus], status: Status) -> str:
    """What is to be known of queries that are not shown: how many are well, and which clusters of theirs are not."""
    well = f"{sum(map(status.is_well, rest))} of them healthy"
    counts = Counter(query.cluster or "" for query in rest)
    doubted = [
        f"{'all' if count == len(rest) else count} on {name}, which is {believed.verdict}"
        for name, count in counts.items()
        if (believed := status.clusters.get(name)) is not None and believed.verdict not in WELL
    ]
    return f", {', '.join(doubted)}" + (f"; {well}" if len(counts) > 1 else "") if doubted else f", {well}"


def _row(query: QueryStatus, at: datetime) -> dict[str, object]:
    return {
        "query": query.query,
        "cluster": query.cluster,
        "runner": query.runner,
        "state": query.state,
        "progress": f"{length(at - query.progressed_at)} ago" if query.progressed_at else None,
        "lag": query.lag_records,
        "automatic": query.automatic,
        "ready": query.ready,
        "operation": query.operation,
        "error": query.error and query.error.partition("\n")[0],
    }


def _events(status: Status) -> list[str]:
    return [f"  {event.at:%H:%M:%S}  {_about(event)}  {tables.cell(event.text)}" for event in status.events]


def _about(event: Event) -> str:
    return f"{event.kind:<9}" + (f"  {event.query}" if event.query is not None else "")
