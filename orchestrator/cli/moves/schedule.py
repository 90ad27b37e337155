"""``schedule``: switchovers at a time, drills again and again."""

from dataclasses import dataclass
from datetime import datetime

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.cli.moves import move, options
from orchestrator.cli.selection import check_some_or_all
from orchestrator.decide.times import iso, parse_end
from orchestrator.errors import UsageError
from orchestrator.lease import is_led
from orchestrator.new_requests import new_id
from orchestrator.schedules import GRACE, next_time
from orchestrator.shapes import operation_shapes
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
        context.gathered("how", options.How),
        context.gathered("which", options.Which),
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
def schedule_switchover(ctx: Context, which: options.Which, how: options.How, to: str | None, at: str) -> None:
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
    _add(ctx, OperationKind.SWITCHOVER, which, how, to=to, times=_Times(next_at=due))


@schedule.command("drill")
@_common
@click.option("--cron", required=True, metavar="EXPRESSION", help="Five fields, as cron has them: '0 3 * * 1'.")
@click.option("--zone", default="UTC", show_default=True, metavar="NAME", help="Time zone of the expression.")
@pass_context
def schedule_drill(ctx: Context, which: options.Which, how: options.How, to: str | None, cron: str, zone: str) -> None:
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
    _add(ctx, OperationKind.DRILL, which, how, to=to, times=_Times(next_at=due, cron=cron, zone=zone))


@schedule.command("list")
@context.output
@pass_context
def list_schedules(ctx: Context, output: str) -> None:
    """List what is to come, soonest first, then what is over.

    \b
    Example:
      tideover schedule list -o json
    """
    render.show([operation_shapes.schedule_row(each) for each in ctx.store.schedules()], output, columns=COLUMNS)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Times:
    """When a schedule is due: once, or again and again by ``cron`` in a ``zone``."""

    next_at: datetime
    cron: str | None = None
    zone: str = "UTC"


def _add(
    ctx: Context, kind: OperationKind, which: options.Which, how: options.How, *, to: str | None, times: _Times
) -> None:
    check_some_or_all(ctx, which.queries, every=which.every)
    if to is not None:
        ctx.known_cluster(to)
    move.check_target(ctx, which.queries, to)
    now, queries = ctx.store.now(), tuple(dict.fromkeys(which.queries))
    made = Schedule(
        id=new_id(now), kind=kind, queries=queries, target=to, cron=times.cron, zone=times.zone,
        consents=which.consents, actor=this_person(), reason=how.reason, created_at=now, next_at=times.next_at,
    )  # fmt: skip
    what = ", ".join(made.queries) or "all queries"
    text = f"{kind.value} of {what} scheduled for {iso(times.next_at)}"
    text += f", then by {times.cron} ({times.zone})" if times.cron else ""
    event = Event(
        sequence=None, at=now, kind="schedule", query=queries[0] if len(queries) == 1 else None, operation=None,
        epoch=None, actor=made.actor, text=text, detail={"schedule": made.id, "reason": how.reason},
    )  # fmt: skip
    with unknown_if_lost("the schedule", hint=_AGAIN):
        ctx.store.add_schedule(made, event=event)
    render.show([operation_shapes.schedule_row(made)], how.output, columns=COLUMNS)
    render.talk(f"{text}; it begins at most {GRACE[kind].total_seconds() / 60:.0f} minutes late")
    if not is_led(ctx.store):
        render.talk("no controller is running now: start tideover control, otherwise nothing begins")
