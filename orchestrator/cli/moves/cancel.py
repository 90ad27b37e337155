"""``cancel``: take back an operation or a request that is not committed yet, or end a schedule."""

from dataclasses import replace
from datetime import timedelta

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.cli.moves.move import follow
from orchestrator.decide.operation.phases import BEHIND_COMMIT
from orchestrator.errors import ExitCode, OutcomeUnknown, Refused, UnknownName
from orchestrator.operation.requests import RequestSpec, submit
from orchestrator.shapes import json_shapes
from state.errors import StoreError
from state.model.entities import MOVES, Event, Operation, OperationKind, Request

COLUMNS = ("id", "kind", "query", "from", "to", "phase", "outcome", "sentence")
_AGAIN = "tideover list shows it, and the same command goes on with it"


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
    asked = ctx.store.request(operation_id)
    operation = ctx.store.operation((asked.operation or operation_id) if asked is not None else operation_id)
    if operation is None and asked is None:
        return _end_schedule(ctx, operation_id, reason, output)
    query, kind, source = _of(ctx, operation, asked)
    spec = RequestSpec(
        kind=kind, targets={query: source}, expect_active={query: source}, actor=this_person(), reason=reason,
        consents=(), within=timedelta(seconds=timeout),
    )  # fmt: skip
    try:
        follow(ctx, submit(ctx.store, spec), seconds=timeout, actor=spec.actor)
        return _told(ctx, operation, asked, output)
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
    row = json_shapes.schedule_row(replace(found, next_at=None, cancelled_by=person))
    render.show([row], output, columns=("id", "kind", "queries", "cron", "last_at", "cancelled_by"))
    return ExitCode.DONE


def _of(ctx: Context, operation: Operation | None, asked: Request | None) -> tuple[str, OperationKind, str]:
    """Query, kind and the cluster on which the query is to stay. Raises ``Refused`` where nothing can be taken back."""
    if operation is not None:
        _check_open(operation)
        return operation.query, _staying(operation.kind), operation.source
    assert asked is not None
    if asked.refused is not None:
        raise Refused(f"request {asked.id} was refused already: {asked.refused}")
    row = ctx.store.assignment(asked.query)
    return asked.query, _staying(asked.kind), row.cluster if row is not None else ctx.query(asked.query).clusters[0]


def _staying(kind: OperationKind) -> OperationKind:
    """The kind of request that asks for a query to stay where it is; a rewind would ask for more."""
    return OperationKind.FAILOVER if kind is OperationKind.REWIND else kind


def _check_open(operation: Operation) -> None:
    """A drill commits nothing, so it can be taken back as long as it is open."""
    if not operation.is_open:
        raise Refused(f"operation {operation.id} is over ({operation.outcome}): {operation.sentence}")
    if operation.phase in BEHIND_COMMIT and operation.kind is OperationKind.REWIND:
        raise Refused(f"operation {operation.id} is committed: {operation.query} has gone back in time")
    if operation.phase in BEHIND_COMMIT and operation.kind in MOVES:
        raise Refused(
            f"operation {operation.id} is committed: {operation.query} is placed on {operation.target}",
            hint=f"once it has ended: tideover plan switchover {operation.query} --to {operation.source}",
        )


def _told(ctx: Context, operation: Operation | None, asked: Request | None, output: str) -> int:
    """Print what became of it, and return the exit code."""
    if operation is None:
        assert asked is not None
        now = ctx.store.request(asked.id) or asked
        if now.refused is None:
            raise OutcomeUnknown(f"request {asked.id} is not taken back yet", hint=_AGAIN)
        render.talk(f"request {asked.id} is taken back: {asked.query} was not touched")
        return ExitCode.DONE
    operation = ctx.store.operation(operation.id) or operation
    value = json_shapes.operation_json(operation, ctx.store.steps(operation.id), ctx.store.evidence(operation.id))
    if output in {"json", "yaml"}:
        render.document(value, output)
    else:
        render.show([value], output, columns=COLUMNS)
    if operation.outcome is None:
        return ExitCode.UNKNOWN
    return ExitCode.REFUSED if operation.outcome == "done" else ExitCode.DONE
