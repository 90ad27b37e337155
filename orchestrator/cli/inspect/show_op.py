"""``show-op``: one operation."""

import click

from orchestrator.cli import context, json_shapes, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.history import SEE_HISTORY
from orchestrator.decide.outcome import outcome_rows
from orchestrator.decide.times import iso
from orchestrator.errors import UnknownName


@click.command("show-op")
@click.argument("operation_id", metavar="ID")
@context.output
@pass_context
def show_operation(ctx: Context, operation_id: str, output: str) -> None:
    """Show one operation: steps, plan, gates, and what was measured.

    \b
    Example:
      tideover show-op 261121-083525-3fa92c71 -o json
    """
    operation = ctx.store.operation(operation_id)
    if operation is None:
        raise UnknownName(f"the store knows no operation {operation_id!r}", hint=SEE_HISTORY)
    from orchestrator.facts.measure import (
        with_later,  # imported when needed: they ask clusters
        with_outcome,
    )

    operation = with_outcome(with_later(operation, ctx.store, ctx.log), ctx.store, ctx.log)
    steps = ctx.store.steps(operation_id)
    value = json_shapes.operation_json(operation, steps)
    if output in {"json", "yaml"}:
        render.document(value, output)
        return
    step_rows = [{**json_shapes.step_json(step), "detail": None} for step in steps]
    if output == "tsv":
        render.show(step_rows, output, columns=("name", "started_at", "ended_at", "outcome"))
        return
    render.say(f"{operation.kind.value} of {operation.query} from {operation.source} to {operation.target}")
    render.say(f"phase {operation.phase.value}, outcome {operation.outcome or 'open'}: {operation.sentence}")
    render.say(f"by {operation.actor}{f', because {operation.reason}' if operation.reason else ''}")
    took = render.length((operation.ended_at or ctx.store.now()) - operation.started_at)
    end = f"ended at {iso(operation.ended_at)}, after {took}" if operation.ended_at else f"open for {took}"
    render.say(f"began at {iso(operation.started_at)}, {end}\n")
    render.say(render.table(step_rows, ("name", "started_at", "ended_at", "outcome")))
    render.say("\n" + render.table([json_shapes.measured_json(operation)], json_shapes.MEASURED))
    if came := outcome_rows(operation):
        render.say("\n" + render.table(came, list(came[0])))
    if operation.plan:
        render.say("\n" + render.plan(operation.plan))
