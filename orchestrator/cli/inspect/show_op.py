"""``show-op``: one operation; with ``--tail`` the records that only the cluster that was left had."""

import base64
from collections.abc import Sequence
from pathlib import Path

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.inspect.history import SEE_HISTORY
from orchestrator.cli.inspect.verify_op import document_of
from orchestrator.cli.operation_text import drill_text, plan_text
from orchestrator.decide.move.left_behind import left_ranges
from orchestrator.decide.move.outcome import outcome_rows
from orchestrator.decide.move.plan import headline
from orchestrator.decide.operation.snapshot import newest_report
from orchestrator.decide.times import instant, iso, length
from orchestrator.errors import ExitCode, Refused, UnknownName, UsageError
from orchestrator.facts.tail import Tail, TailRecord, tail_of
from orchestrator.shapes import operation_shapes
from state.model.entities import MOVES, Operation
from state.model.evidence import Evidence
from state.plain_text import amount, plain


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
    some cannot be listed, or if it is in doubt whether some belong there: the last column says why.

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
        with_later,  # imported when needed: they read clusters
        with_outcome,
    )

    operation = with_outcome(with_later(operation, ctx.store, ctx.log), ctx.store, ctx.log)
    if tail:
        return show_tail(ctx, operation, output)
    steps = ctx.store.steps(operation_id)
    kept = ctx.store.evidence(operation_id)
    value = operation_shapes.operation_json(operation, steps, kept)
    if output in {"json", "yaml"}:
        render.document(value, output)
        return ExitCode.DONE
    step_rows = [{**operation_shapes.step_json(step), "detail": None} for step in steps]
    if output == "tsv":
        render.show(step_rows, output, columns=STEP_COLUMNS)
    else:
        _say_operation(ctx, operation, step_rows, kept)
    return ExitCode.DONE


_MEASURED = {"replay_later_records": "of_these_came_later"}
"""For people: the plan that is printed below has the number that was to come, under the same name."""
STEP_COLUMNS = ("name", "started_at", "ended_at", "outcome")


def _say_operation(ctx: Context, operation: Operation, step_rows: Sequence[tables.Row], kept: Evidence | None) -> None:
    """Print an operation for people."""
    render.say(headline(operation.kind, operation.query, operation.source, operation.target, operation.parameters))
    render.say(f"phase {operation.phase.value}, outcome {operation.outcome or 'open'}: {operation.sentence}")
    render.say(f"by {operation.actor}{f', because {operation.reason}' if operation.reason else ''}")
    took = length((operation.ended_at or ctx.store.now()) - operation.started_at)
    end = f"ended at {iso(operation.ended_at)}, after {took}" if operation.ended_at else f"open for {took}"
    render.say(f"began at {iso(operation.started_at)}, {end}\n")
    render.say(tables.table(step_rows, STEP_COLUMNS))
    if operation.kind in MOVES:
        measured = {_MEASURED.get(name, name): each for name, each in operation_shapes.measured_json(operation).items()}
        render.say("\n" + tables.table([measured], list(measured)))
    elif reported := drill_text(operation.measured.drill):
        render.say("\n" + reported)
    if came := outcome_rows(operation):
        rows = [row.as_json() for row in came]
        render.say("\n" + tables.table(rows, list(rows[0])))
    if operation.plan is not None:
        render.say("\n" + plan_text(operation.plan))
    if not operation.is_open:
        render.say("\nevidence  " + _evidence_line(operation.id, kept))


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
    from orchestrator.facts.evidence.folder import write_once
    from orchestrator.facts.evidence.page import page  # imported when needed, as is what measures

    if not write_once(Path(target), document if target.endswith(".json") else page(kept)):
        raise UsageError(f"{target} is there already", hint="name a file that is not: evidence overwrites nothing")
    render.talk(f"{target}: evidence of operation {operation_id}, sha256 {kept.sha256}")


COLUMNS = ("topic", "partition", "offset", "time", "key", "value", "on_standby", "read_before", "doubt")
SHOWN_LETTERS = 60
"""Of a key or a value this many letters are shown to a person."""


def show_tail(ctx: Context, operation: Operation, output: str) -> int:
    """Print what an operation left behind, and return the exit code. Raises ``Refused`` and ``KafkaError``."""
    if operation.outcome != "done":
        raise Refused(f"operation {operation.id} moved nothing: it left no records behind")
    if not left_ranges(operation):
        raise Refused(f"operation {operation.id} did not record what {operation.target} lacked")
    report = newest_report(ctx.store.intents(operation.id))
    tail = tail_of(operation, ctx.log, None if report is None else report.planned)
    value = tail_json(tail)
    if output in {"json", "yaml"}:
        render.document(value, output)
    else:
        render.show(tail_rows(tail), output, columns=COLUMNS)
        render.talk(_lacked(tail))
    for each in tail.partitions:
        if each.why:
            render.talk(f"{each.topic}-{each.partition}: {each.why}")
    return ExitCode.DONE if tail.is_whole else ExitCode.UNKNOWN


def _lacked(tail: Tail) -> str:
    """What the standby lacked. Where a partition was not measured, the number is a lower bound, or there is none."""
    operation = tail.operation
    unknown = sum(each.last is None and bool(each.why) for each in tail.partitions)
    if unknown and not tail.records:
        forecast = operation.plan.totals.exposure_records if operation.plan is not None else None
        expected = "" if forecast is None else f" (forecast {forecast})"
        return (
            f"what {operation.target} lacked of {operation.source} is unknown{expected}; type this again once "
            f"{operation.source} answers"
        )
    came = sum(each.on_standby for each in tail.records)
    doubtful = sum(bool(_doubt(each)) for each in tail.records)
    least = "at least " if unknown else ""
    return (
        f"{operation.target} lacked {least}{amount(len(tail.records) - doubtful, 'record')} of {operation.source} when "
        f"{operation.query} left; {came} have come there since"
        + (f"; {doubtful} more are in doubt, as the last column says" if doubtful else "")
    )


def tail_json(tail: Tail) -> dict[str, object]:
    """What an operation left behind on the old cluster, each record in full."""
    return {
        "operation": tail.operation.id,
        "query": tail.operation.query,
        "cluster": tail.operation.source,
        "standby": tail.operation.target,
        "whole": tail.is_whole,
        "partitions": [
            {
                "topic": each.topic, "partition": each.partition, "first": each.first, "last": each.last,
                "counted": each.counted, "listed": len(each.records), "why": each.why,
            }
            for each in tail.partitions
        ],
        "records": [
            {
                "topic": each.topic, "partition": each.partition, "offset": each.record.offset,
                "timestamp_ms": each.record.timestamp_ms, "key": _content(each.record.key),
                "value": _content(each.record.value),
                "headers": [[name, _content(value)] for name, value in each.record.headers],
                "on_standby": each.on_standby, "read_before": each.read_before, "committed": each.committed,
                "dated_later": each.dated_later,
            }
            for each in tail.records
        ],
    }  # fmt: skip


def _content(given: bytes | None) -> str | dict[str, str] | None:
    """Text, or ``{"base64": ...}`` where it is none: nothing of it is lost."""
    if given is None:
        return None
    try:
        return given.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(given).decode()}


def tail_rows(tail: Tail) -> list[dict[str, object]]:
    """The same records as a person looks through them."""
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.record.offset,
            "time": instant(each.record.timestamp_ms),
            "key": _shown(each.record.key),
            "value": _shown(each.record.value),
            "on_standby": each.on_standby,
            "read_before": each.read_before,
            "doubt": _doubt(each),
        }
        for each in tail.records
    ]


def _doubt(each: TailRecord) -> str:
    """Why the query may never have had to read this record; empty where it had."""
    if each.committed is None:
        return "its transaction is open"
    if not each.committed:
        return "aborted"
    return "dated after the move" if each.dated_later else ""


def _shown(given: bytes | None) -> str:
    if given is None:
        return "-"
    shown = plain(given.decode(errors="replace"))
    return shown if len(shown) <= SHOWN_LETTERS else f"{shown[: SHOWN_LETTERS - 3]}..."
