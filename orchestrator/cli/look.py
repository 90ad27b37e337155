"""Verbs that only look: ``list``, ``show``, ``history``, ``show-op``."""

from datetime import UTC, datetime

import click

from orchestrator.cli import options, render, shapes
from orchestrator.cli.world import World, pass_world
from orchestrator.errors import UnknownName

QUERY_COLUMNS = ("query", "cluster", "runner", "epoch", "state", "batch", "progress_age_seconds", "operation")
EVENT_COLUMNS = ("at", "kind", "query", "operation", "epoch", "actor", "text")


def rows(world: World) -> list[dict[str, object]]:
    """What ``list`` shows."""
    store = world.store
    return shapes.query_rows(
        world.settings,
        store.assignments(),
        store.query_facts(),
        store.operations(only_open=True),
        datetime.now(UTC),
    )


@click.command("list")
@options.output
@pass_world
def list_queries(world: World, output: str) -> None:
    """Show every query: where it runs and how old its progress is.

    \b
    Examples:
      tideover list
      tideover list -o json
    """
    render.show(rows(world), output, columns=QUERY_COLUMNS)


@click.command()
@click.argument("query")
@options.output
@pass_world
def show(world: World, query: str, output: str) -> None:
    """Show one query: assignment, last report, runners, positions, operations.

    \b
    Examples:
      tideover show revenue
      tideover show revenue -o yaml
    """
    settings, store, now = world.query(query), world.store, datetime.now(UTC)
    row = next(row for row in rows(world) if row["query"] == query)
    assignment = store.assignment(query)
    fact = next((fact for fact in store.query_facts() if fact.query == query), None)
    runners = [shapes.runner_row(fact, now) for fact in store.runners() if fact.runner in settings.runners]
    operations = [
        {"id": o.id, "kind": o.kind.value, "phase": o.phase.value, "outcome": o.outcome, "sentence": o.sentence}
        for o in store.operations(query=query, limit=5)
    ]
    if output in {"json", "yaml"}:
        hosting = next((r for r in runners if assignment and r["runner"] == assignment.runner), None)
        value = {
            **row,
            "runner": hosting or {"runner": row["runner"], "warm": None},
            "checkpoint": assignment.checkpoint if assignment else None,
            "report": shapes.fact_detail(fact),
            "runners": runners,
            "operations": operations,
        }
        render.document(value, output)
        return
    render.show([row], output, columns=QUERY_COLUMNS)
    if output == "tsv":
        return
    click.echo(f"\ncheckpoint  {assignment.checkpoint if assignment else '-'}")
    if fact is not None and fact.error:
        click.echo(f"error       {fact.error.partition(chr(10))[0]}")
    if runners:
        click.echo("\n" + render.table(runners, list(runners[0])))
    if operations:
        click.echo("\n" + render.table(operations, list(operations[0])))


@click.command()
@click.argument("query", required=False)
@click.option("--operation", metavar="ID", help="Only the lines of this operation.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="The newest so many.")
@options.output
@pass_world
def history(world: World, query: str | None, operation: str | None, limit: int, output: str) -> None:
    """Show what happened: who, what, when, why; oldest first.

    \b
    Examples:
      tideover history
      tideover history revenue --limit 20
      tideover history --operation 261121-083525-3fa9 -o json
    """
    if query is not None:
        world.query(query)
    events = world.store.history(query=query, operation=operation, limit=limit)
    columns = EVENT_COLUMNS if output in {"table", "tsv"} else ("sequence", *EVENT_COLUMNS)
    render.show([shapes.event_row(event) for event in events], output, columns=columns)


@click.command("show-op")
@click.argument("operation_id", metavar="ID")
@options.output
@pass_world
def show_operation(world: World, operation_id: str, output: str) -> None:
    """Show one operation: steps, plan, gates, and what was measured.

    \b
    Example:
      tideover show-op 261121-083525-3fa9 -o json
    """
    operation = world.store.operation(operation_id)
    if operation is None:
        raise UnknownName(f"operation {operation_id!r} is not known", hint="tideover history lists operations")
    steps = world.store.steps(operation_id)
    value = shapes.operation_json(operation, steps)
    if output in {"json", "yaml"}:
        render.document(value, output)
        return
    step_rows = [{**shapes.step_json(step), "detail": None} for step in steps]
    if output == "tsv":
        render.show(step_rows, output, columns=("name", "started_at", "ended_at", "outcome"))
        return
    click.echo(f"{operation.kind.value} of {operation.query} from {operation.source} to {operation.target}")
    click.echo(f"phase {operation.phase.value}, outcome {operation.outcome or 'open'}: {operation.sentence}")
    click.echo(f"by {operation.actor}{f', because {operation.reason}' if operation.reason else ''}\n")
    click.echo(render.table(step_rows, ("name", "started_at", "ended_at", "outcome")))
    measured = {name: operation.measured.get(name) for name in shapes.MEASURED}
    click.echo("\n" + render.table([measured], shapes.MEASURED))
    if operation.plan:
        click.echo("\n" + render.plan(operation.plan))
