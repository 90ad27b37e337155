"""``schedule``: switchovers at a time, drills again and again."""

from datetime import datetime
from functools import partial

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.cli.moves import move, options
from orchestrator.cli.selection import check_some_or_all
from orchestrator.decide.times import iso, parse_end
from orchestrator.errors import UsageError
from orchestrator.lease import is_led
from orchestrator.operation.requests import new_id
from orchestrator.schedules import GRACE, next_time
from orchestrator.shapes import json_shapes
from state.model.automation import Schedule
from state.model.entities import Event, OperationKind

COLUMNS = ("id", "kind", "queries", "target", "next_at", "cron", "zone", "last_at", "last_outcome", "actor", "reason")
_AGAIN = "tideover schedule list shows whether it was saved"


@click.group()
def schedule() -> None:
    """Request a switchover at a time, or drills by a cron expression. The leading controller carries it out.

    A schedule is kept in the store. tideover cancel ID ends it; once its operation has begun, cancel that.
    """


def _common(command: context.Command) -> context.Command:
    for decorate in (
        context.output,
        context.reason,
        options.to,
        click.option("--all", "every", is_flag=True, help="Every query that is declared when the time has come."),
        click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query),
    ):  # fmt: skip
        command = decorate(command)
    return command


@schedule.command("switchover")
@_common
@click.option("--at", "at", required=True, metavar="TIME", help="When: 2h from now, or ISO 8601 with a zone.")
@options.consents
@pass_context
def schedule_switchover(
    ctx: Context,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    at: str,
    consents: tuple[str, ...],
    reason: str,
    output: str,
) -> None:
    """Switch over at a time. It begins at most 10 minutes late, otherwise it is missed, and history says so.

    --to is needed: by then the query may be on another cluster. What tideover plan switchover shows is judged again
    at that time.

    \b
    Examples:
      tideover schedule switchover revenue --to west --at 2030-01-31T02:00:00+01:00 --reason "brokers of east"
      tideover schedule switchover --all --to west --at 90m
    """
    if to is None:
        raise UsageError("a switchover at a time needs --to", hint="by then the query may be on another cluster")
    try:
        due = parse_end(at, ctx.store.now())
    except ValueError as error:
        raise UsageError(str(error)) from error
    add = partial(_add, ctx, OperationKind.SWITCHOVER, queries, every=every, to=to, reason=reason, output=output)
    add(next_at=due, cron=None, zone="UTC", consents=consents)


@schedule.command("drill")
@_common
@click.option("--cron", required=True, metavar="EXPRESSION", help="Five fields, as cron has them: '0 3 * * 1'.")
@click.option("--zone", default="UTC", show_default=True, metavar="NAME", help="Time zone of the expression.")
@pass_context
def schedule_drill(
    ctx: Context,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    cron: str,
    zone: str,
    reason: str,
    output: str,
) -> None:
    """Drill again and again. Each drill begins at most an hour late; of those that were missed one is made up for.

    A time that comes twice when summer time ends counts the first time. One that is left out when it begins counts an
    hour later.

    \b
    Examples:
      tideover schedule drill --all --cron "0 3 * * 1" --zone Europe/Zurich --reason "every Monday"
      tideover schedule drill revenue --to west --cron "30 4 1 * *"
    """
    try:
        due = next_time(cron, zone, ctx.store.now())
    except ValueError as error:
        raise UsageError(str(error)) from error
    if due is None:
        raise UsageError(f"{cron!r} never comes")
    add = partial(_add, ctx, OperationKind.DRILL, queries, every=every, to=to, reason=reason, output=output)
    add(next_at=due, cron=cron, zone=zone, consents=())


@schedule.command("list")
@context.output
@pass_context
def list_schedules(ctx: Context, output: str) -> None:
    """List what is to come, soonest first, then what is over.

    \b
    Example:
      tideover schedule list -o json
    """
    render.show([json_shapes.schedule_row(each) for each in ctx.store.schedules()], output, columns=COLUMNS)


def _add(
    ctx: Context,
    kind: OperationKind,
    queries: tuple[str, ...],
    *,
    every: bool,
    to: str | None,
    reason: str,
    output: str,
    next_at: datetime,
    cron: str | None,
    zone: str,
    consents: tuple[str, ...],
) -> None:
    check_some_or_all(ctx, queries, every=every)
    if to is not None:
        ctx.known_cluster(to)
    move.check_target(ctx, queries, to)
    now = ctx.store.now()
    made = Schedule(
        id=new_id(now), kind=kind, queries=tuple(dict.fromkeys(queries)), target=to, cron=cron, zone=zone,
        consents=consents, actor=this_person(), reason=reason, created_at=now, next_at=next_at,
    )  # fmt: skip
    what = ", ".join(made.queries) or "all queries"
    text = f"{kind.value} of {what} scheduled for {iso(next_at)}" + (f", then by {cron} ({zone})" if cron else "")
    event = Event(
        sequence=None, at=now, kind="schedule", query=queries[0] if len(queries) == 1 else None, operation=None,
        epoch=None, actor=made.actor, text=text, detail={"schedule": made.id, "reason": reason},
    )  # fmt: skip
    with unknown_if_lost("the schedule", hint=_AGAIN):
        ctx.store.add_schedule(made, event=event)
    render.show([json_shapes.schedule_row(made)], output, columns=COLUMNS)
    render.talk(f"{text}; it begins at most {GRACE[kind].total_seconds() / 60:.0f} minutes late")
    if not is_led(ctx.store):
        render.talk("no controller is running now: start tideover control, otherwise nothing begins")
