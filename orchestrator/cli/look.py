"""Verbs that only look: ``list``, ``show``, ``history``, ``show-op``."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click

from orchestrator import steering
from orchestrator.cli import options, render, shapes
from orchestrator.cli.follow import follow
from orchestrator.cli.world import World, pass_world
from orchestrator.clock import SystemClock
from orchestrator.decide.automatic import cooldown_text, pause_in_force, paused_text
from orchestrator.decide.outcome import outcome_rows
from orchestrator.decide.replication import replication_json, replication_rows, replication_text
from orchestrator.decide.sampling import sentence
from orchestrator.decide.situation import ready_now
from orchestrator.decide.times import iso
from orchestrator.errors import UnknownName
from orchestrator.later import with_later
from orchestrator.outcome import with_outcome
from orchestrator.reported import fact_of
from state.model import Event

QUERY_COLUMNS = (
    "query", "cluster", "runner", "epoch", "state", "batch", "progress_age_seconds", "operation", "automatic", "ready",
    "request",
)  # fmt: skip
SEE_HISTORY = "tideover history lists operations"
EVENT_COLUMNS = ("at", "kind", "query", "operation", "epoch", "actor", "text")


def rows(world: World) -> list[dict[str, object]]:
    """What ``list`` shows."""
    store = world.store
    pauses, now = tuple(store.pauses()), store.now()
    cooldowns = steering.cooldowns(store, world.settings)
    return shapes.query_rows(
        world.settings,
        store.assignments(),
        store.query_facts(),
        store.operations(only_open=True),
        datetime.now(UTC),
        requests=store.open_requests(),
        automatic={
            name: shapes.automatic_json(world.settings, name, pauses, cooldowns.get(name), now)
            for name in world.settings.queries
        },
        ready=ready_now(store.readiness(), now),
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
    """Show one query: assignment, last report, runners, positions, age of its copies, operations.

    From the store alone: how old the standby's copies are is what the controller sampled last, within a minute
    as a rule. It goes by the largest timestamps, which need not be those of the records produced last.

    \b
    Examples:
      tideover show revenue
      tideover show revenue -o yaml
    """
    settings, store, now = world.query(query), world.store, datetime.now(UTC)
    pause = pause_in_force(tuple(store.pauses()), query, store.now())
    cooldown = steering.cooldowns(store, world.settings).get(query)
    automatic = shapes.automatic_json(world.settings, query, tuple(store.pauses()), cooldown, store.now())
    sampled = next((each for each in store.readiness() if each.query == query), None)
    row = next(row for row in rows(world) if row["query"] == query)
    assignment = store.assignment(query)
    fact = fact_of(store, query)
    runners = [shapes.runner_row(fact, now) for fact in store.runners() if fact.runner in settings.runners]
    positions = shapes.position_rows(store.positions(query))
    operations = [
        {"id": o.id, "kind": o.kind.value, "phase": o.phase.value, "outcome": o.outcome, "sentence": o.sentence}
        for o in store.operations(query=query, limit=5)
    ]
    replication, sampled_now = store.replication(query), store.now()
    requests = [shapes.request_row(asked) for asked in store.open_requests() if asked.query == query]
    if output in {"json", "yaml"}:
        hosting = next((r for r in runners if assignment and r["runner"] == assignment.runner), None)
        value = {
            **row,
            "runner": hosting or {"runner": row["runner"], "warm": None},
            "checkpoint": assignment.checkpoint if assignment else None,
            "report": shapes.fact_detail(fact),
            "runners": runners,
            "positions": positions,
            "operations": operations,
            "requests": requests,
            "automatic": automatic,
            "readiness": shapes.readiness_json(sampled),
            "replication": replication_json(replication, sampled_now),
        }
        render.document(value, output)
        return
    render.show([row], output, columns=QUERY_COLUMNS)
    if output == "tsv":
        return
    render.say(f"\ncheckpoint  {assignment.checkpoint if assignment else '-'}")
    if fact is not None and fact.error:
        render.say(f"error       {fact.error.partition(chr(10))[0]}")
    if pause is not None:
        render.say(f"paused      {paused_text(pause)}")
    if cooldown is not None and automatic["cooldown"] is not None:
        render.say(f"cool-down   {cooldown_text(cooldown, query)}")
    if sampled is not None:
        render.say(f"readiness   {sentence(sampled)} ({iso(sampled.sampled_at)})")
    if replication is not None:
        render.say(f"replication {replication_text(replication, sampled_now)}")
    copies = replication_rows(replication) if replication is not None else []
    _say_table("", runners)
    _say_table("", positions)
    _say_table("copies\n", copies, render.COPY_COLUMNS)
    _say_table("", operations)
    _say_table("not taken yet\n", requests)


def _say_table(heading: str, found: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> None:
    """Some columns, or all; nothing where there are no rows."""
    if found:
        render.say(f"\n{heading}{render.table(found, columns or list(found[0]))}")


@click.command()
@click.argument("query", required=False)
@click.option("--operation", metavar="ID", help="Only the lines of this operation.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="The newest so many.")
@click.option("-f", "--follow", "following", is_flag=True, help="Then print what comes, one line each, until ^C.")
@options.output
@pass_world
def history(world: World, query: str | None, operation: str | None, limit: int, following: bool, output: str) -> None:
    """Show what happened: who, what, when, why; oldest first. Followed, JSON is one object a line.

    \b
    Examples:
      tideover history
      tideover history revenue --limit 20
      tideover history --operation 261121-083525-3fa9 -o json
      tideover history -f --limit 5
    """
    if query is not None and world.store.assignment(query) is None:
        world.query(query)
    if operation is not None and world.store.operation(operation) is None:
        raise UnknownName(f"operation {operation!r} is not known", hint=SEE_HISTORY)

    def read(after: int, newest: int) -> Sequence[Event]:
        return world.store.history(query=query, operation=operation, after=after, limit=newest)

    if following:
        follow(read, shapes.event_row, newest=limit, columns=EVENT_COLUMNS, output=output, clock=SystemClock())
        return
    events = read(0, limit)
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
        raise UnknownName(f"operation {operation_id!r} is not known", hint=SEE_HISTORY)
    operation = with_outcome(with_later(operation, world.store, world.log), world.store, world.log)
    steps = world.store.steps(operation_id)
    value = shapes.operation_json(operation, steps)
    if output in {"json", "yaml"}:
        render.document(value, output)
        return
    step_rows = [{**shapes.step_json(step), "detail": None} for step in steps]
    if output == "tsv":
        render.show(step_rows, output, columns=("name", "started_at", "ended_at", "outcome"))
        return
    render.say(f"{operation.kind.value} of {operation.query} from {operation.source} to {operation.target}")
    render.say(f"phase {operation.phase.value}, outcome {operation.outcome or 'open'}: {operation.sentence}")
    render.say(f"by {operation.actor}{f', because {operation.reason}' if operation.reason else ''}\n")
    render.say(render.table(step_rows, ("name", "started_at", "ended_at", "outcome")))
    render.say("\n" + render.table([shapes.measured_json(operation)], shapes.MEASURED))
    if came := outcome_rows(operation):
        render.say("\n" + render.table(came, list(came[0])))
    if operation.plan:
        render.say("\n" + render.plan(operation.plan))
