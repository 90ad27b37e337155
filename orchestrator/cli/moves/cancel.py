"""``cancel``: take back an operation or a request that is not committed yet, or end a schedule."""

from dataclasses import replace
from datetime import timedelta

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.cli.moves.move import follow
from orchestrator.errors import ExitCode, OutcomeUnknown, Refused, UnknownName
from orchestrator.new_requests import RequestSpec, submit
from orchestrator.operation.cancellations import cancellation_of
from orchestrator.shapes import operation_shapes
from state.errors import StoreError
from state.model.entities import Event, Operation, Request

COLUMNS = ("id", "kind", "query", "from", "to", "phase", "outcome", "sentence")
_AGAIN = "tideover list shows it, and the same command continues it"


@click.command()
@click.argument("operation_id", metavar="ID")
@click.option("--timeout", type=context.Seconds(1, 86_400), default=120.0, show_default=True, metavar="SECONDS",
              help="How long to wait until the query runs again.")  # fmt: skip
@context.reason
@context.output
@pass_context
def cancel(ctx: Context, operation_id: str, timeout: float, reason: str, output: str) -> int:
    """Take back an operation, or a request that waits for its turn, before its commit. Or end a schedule.

    The query stays on its cluster and runs on from its old checkpoint. A drill ends at once. Exit 1 if
    the operation is committed or over: then only another move brings the query back.

    \b
    Examples:
      tideover cancel 261121-083525-3fa92c71
      tideover cancel 261121-083525-3fa92c71 --reason "east answers again"
    """
    found = cancellation_of(ctx.store, ctx.settings, operation_id)
    if found is None:
        return _end_schedule(ctx, operation_id, reason, output)
    spec = RequestSpec(
        kind=found.kind, targets={found.query: found.source}, expect_active={found.query: found.source},
        actor=this_person(), reason=reason, consents=(), within=timedelta(seconds=timeout),
    )  # fmt: skip
    try:
        follow(ctx, submit(ctx.store, spec), seconds=timeout, actor=spec.actor)
        return _printed(ctx, found.operation, found.requested, output)
    except KeyboardInterrupt:
        raise OutcomeUnknown("interrupted: the cancellation stays open", hint=_AGAIN) from None
    except StoreError as error:
        raise OutcomeUnknown(f"the cancellation may stay open: {error}", hint=_AGAIN) from error


def _end_schedule(ctx: Context, schedule_id: str, reason: str, output: str) -> int:
    found = next((each for each in ctx.store.schedules() if each.id == schedule_id), None)
    if found is None:
        raise UnknownName(
            f"{schedule_id!r} is neither an operation nor a request nor a schedule",
            hint="tideover history and tideover schedule list show them",
        )
    person = this_person()
    event = Event(
        sequence=None, at=ctx.store.now(), kind="schedule", query=None, operation=None, epoch=None, actor=person,
        text=f"schedule {schedule_id} cancelled", detail={"schedule": schedule_id, "reason": reason},
    )  # fmt: skip
    with unknown_if_lost("the cancellation", hint=_AGAIN):
        ended = ctx.store.cancel_schedule(schedule_id, actor=person, event=event)
    if not ended:
        raise Refused(f"schedule {schedule_id} is over", hint="tideover schedule list shows the result")
    row = operation_shapes.schedule_row(replace(found, next_at=None, cancelled_by=person))
    render.show([row], output, columns=("id", "kind", "queries", "cron", "last_at", "cancelled_by"))
    return ExitCode.DONE


def _printed(ctx: Context, operation: Operation | None, requested: Request | None, output: str) -> int:
    """Print what became of it, and return the exit code."""
    if operation is None:
        assert requested is not None
        now = ctx.store.request(requested.id) or requested
        if now.refused is None:
            raise OutcomeUnknown(f"request {requested.id} is not taken back yet", hint=_AGAIN)
        render.talk(f"request {requested.id} is taken back: {requested.query} was not touched")
        return ExitCode.DONE
    operation = ctx.store.operation(operation.id) or operation
    value = operation_shapes.operation_json(operation, ctx.store.steps(operation.id), ctx.store.evidence(operation.id))
    if output in {"json", "yaml"}:
        render.document(value, output)
    else:
        render.show([value], output, columns=COLUMNS)
    if operation.outcome is None:
        return ExitCode.UNKNOWN
    return ExitCode.REFUSED if operation.outcome == "done" else ExitCode.DONE
