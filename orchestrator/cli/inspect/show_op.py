"""``show-op``: one operation."""

from pathlib import Path

import click

from orchestrator.cli import context, json_shapes, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.history import SEE_HISTORY
from orchestrator.cli.inspect.verify_op import document_of
from orchestrator.decide.operation.plan import headline
from orchestrator.decide.outcome import outcome_rows
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode, UnknownName, UsageError
from state.model.entities import MOVES
from state.model.evidence import Evidence


@click.command("show-op")
@click.argument("operation_id", metavar="ID")
@click.option(
    "--evidence",
    metavar="FILE",
    help="Write the evidence of the operation to a new FILE instead: .json, or .html for people; - for JSON on stdout.",
)
@click.option("--tail", is_flag=True, help="The records that only the old cluster had, in full, instead.")
@context.output
@pass_context
def show_operation(ctx: Context, operation_id: str, evidence: str | None, tail: bool, output: str) -> int:
    """Show one operation: steps, plan, gates, and what was measured.

    The evidence is one document, written once when the operation has closed; tideover verify-op checks it.
    sha256sum of the JSON file is its hash.

    With --tail: every record that the standby lacked when the query left, read from the old cluster now, and whether
    the standby has got it since. Nothing reads them later: leave them, or keep them in a file (-o json). Exit 3 if
    some cannot be listed.

    \b
    Examples:
      tideover show-op 261121-083525-3fa92c71 -o json
      tideover show-op 261121-083525-3fa92c71 --tail -o json > tail.json
      tideover show-op 261121-083525-3fa92c71 --evidence failover.html
    """
    if evidence is not None:
        _write_evidence(ctx, operation_id, evidence)
        return ExitCode.DONE
    operation = ctx.store.operation(operation_id)
    if operation is None:
        raise UnknownName(f"the store knows no operation {operation_id!r}", hint=SEE_HISTORY)
    from orchestrator.facts.measure import (
        with_later,  # imported when needed: they ask clusters
        with_outcome,
    )

    operation = with_outcome(with_later(operation, ctx.store, ctx.log), ctx.store, ctx.log)
    if tail:
        from orchestrator.cli.tail import show_tail  # it reads records

        return show_tail(ctx, operation, output)
    steps = ctx.store.steps(operation_id)
    kept = ctx.store.evidence(operation_id)
    value = json_shapes.operation_json(operation, steps, kept)
    if output in {"json", "yaml"}:
        render.document(value, output)
        return ExitCode.DONE
    step_rows = [{**json_shapes.step_json(step), "detail": None} for step in steps]
    if output == "tsv":
        render.show(step_rows, output, columns=("name", "started_at", "ended_at", "outcome"))
        return ExitCode.DONE
    render.say(headline(operation.kind, operation.query, operation.source, operation.target, operation.parameters))
    render.say(f"phase {operation.phase.value}, outcome {operation.outcome or 'open'}: {operation.sentence}")
    render.say(f"by {operation.actor}{f', because {operation.reason}' if operation.reason else ''}")
    took = render.length((operation.ended_at or ctx.store.now()) - operation.started_at)
    end = f"ended at {iso(operation.ended_at)}, after {took}" if operation.ended_at else f"open for {took}"
    render.say(f"began at {iso(operation.started_at)}, {end}\n")
    render.say(render.table(step_rows, ("name", "started_at", "ended_at", "outcome")))
    if operation.kind in MOVES:
        render.say("\n" + render.table([json_shapes.measured_json(operation)], json_shapes.MEASURED))
    elif told := render.drill(operation.measured):
        render.say("\n" + told)
    if came := outcome_rows(operation):
        render.say("\n" + render.table(came, list(came[0])))
    if operation.plan:
        render.say("\n" + render.plan(operation.plan))
    if not operation.is_open:
        render.say("\nevidence  " + _evidence_line(operation_id, kept))
    return ExitCode.DONE


def _evidence_line(operation_id: str, kept: Evidence | None) -> str:
    if kept is None:
        return "none yet: the controller that leads writes it within a minute"
    if kept.document is None:
        return f"number {kept.sequence}: deleted by retention, its sha256 was {kept.sha256}"
    way = f"tideover show-op {operation_id} --evidence FILE.html, or FILE.json"
    return f"number {kept.sequence}, sha256 {kept.sha256}; to get it: {way}"


def _write_evidence(ctx: Context, operation_id: str, target: str) -> None:
    """Write the document to a file that is new, or to stdout."""
    if target != "-" and not target.endswith((".json", ".html")):
        raise UsageError(f"{target} ends neither with .json nor with .html", hint="the end of the name says which")
    kept, document = document_of(ctx.store, operation_id)
    if target == "-":
        render.say(document)
        return
    from orchestrator.decide.evidence.page import page  # imported when needed, as is what measures
    from orchestrator.facts.evidence import write_once

    if not write_once(Path(target), document if target.endswith(".json") else page(kept)):
        raise UsageError(f"{target} is there already", hint="name a file that is not: evidence overwrites nothing")
    render.talk(f"{target}: evidence of operation {operation_id}, sha256 {kept.sha256}")
