"""``plan failover``, ``switchover``, ``failback``, ``rewind``, ``drill``: what it would do. Changes nothing."""

from collections.abc import Sequence
from typing import Any

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.moves.move import aims_of, flags_of, plans_of, plans_text, say_circles
from orchestrator.cli.moves.options import Flags, Which, home, to, waves, which
from orchestrator.cli.moves.rewind import aim_of, back
from orchestrator.cli.operation_text import PARTITION_COLUMNS, refusals
from orchestrator.cli.plan_summary import counted
from orchestrator.decide.operation.turns import THERE
from orchestrator.errors import ExitCode
from orchestrator.facts.current import moved_last, open_operation
from state.model.entities import OperationKind
from state.model.plan import Plan


@click.group()
def plan() -> None:
    """Show what a move would do, and what every gate says. Changes nothing."""


@plan.command("failover")
@which
@waves
@to
@context.output
@pass_context
def plan_failover(ctx: Context, /, **options: Any) -> int:
    """Show what failover would do: where each partition resumes, by which method, and what it costs.

    \b
    Examples:
      tideover plan failover revenue
      tideover plan failover --all --to west -o json
    """
    return _plan(ctx, OperationKind.FAILOVER, **options)


@plan.command("switchover")
@which
@waves
@to
@context.output
@pass_context
def plan_switchover(ctx: Context, /, **options: Any) -> int:
    """Show what switchover would do: whether the replicator runs, and what the other cluster still lacks.

    A switchover waits for what is lacking (gate caught-up) for as long as policy.catch_up says. The plans are in the
    order in which the queries begin; "after" names those that one waits for, because it reads what they write.

    \b
    Examples:
      tideover plan switchover revenue
      tideover plan switchover --all --to east -o json
    """
    return _plan(ctx, OperationKind.SWITCHOVER, **options)


@plan.command("failback")
@which
@waves
@home
@context.output
@pass_context
def plan_failback(ctx: Context, /, **options: Any) -> int:
    """Show what failback would do: whether replication runs the right way, and what the home cluster still lacks.

    A note at a partition counts records before the resume offset that the move does not read. tideover show-op ID
    --tail lists them, with the id in the note.

    \b
    Examples:
      tideover plan failback revenue
      tideover plan failback --all -o json
    """
    return _plan(ctx, OperationKind.FAILBACK, **options)


@plan.command("rewind")
@back
@context.output
@pass_context
def plan_rewind(ctx: Context, query: str, to_time: str, consents: tuple[str, ...], output: str) -> int:
    """Show what rewind would do: from where each partition is read again, and how many records that are.

    For a query with state the count is from the timeline, rather too large: the batch it goes back to is known once
    the query has stopped. What it reads until then comes on top.

    
    Examples:
      tideover plan rewind revenue --to-time -2h
      tideover plan rewind revenue --to-time 2026-01-31T12:00:00Z -o json
    """
    aim, _, flags = aim_of(ctx, query, to_time, consents)
    plans = list(plans_of(ctx, OperationKind.REWIND, [aim], flags))
    _print_plans(ctx, plans, flags, output, many=False)
    return ExitCode.REFUSED if any(_is_turned_down(ctx, each) for each in plans) else ExitCode.DONE


@plan.command("drill")
@which
@context.output
@pass_context
def plan_drill(ctx: Context, /, **options: Any) -> int:
    """Show what a drill would rehearse: the plan of a failover, with the same gates.

    \b
    Examples:
      tideover plan drill revenue
      tideover plan drill --all -o json
    """
    return _plan(ctx, OperationKind.DRILL, **options)


def _plan(
    ctx: Context,
    kind: OperationKind,
    which: Which,
    output: str,
    to: str | None = None,
    waves: tuple[int, ...] | None = None,
) -> int:
    flags, group = flags_of(ctx, kind, which, to=to, waves=waves), bool(which.group)
    aims = aims_of(ctx, flags, group=group)
    plans = list(counted(plans_of(ctx, kind, aims, flags), len(aims)))
    _print_plans(ctx, plans, flags, output, many=group or len(flags.queries) > 1)
    say_circles(ctx, kind, flags.queries)
    return ExitCode.REFUSED if any(_is_turned_down(ctx, each) for each in plans) else ExitCode.DONE


def _is_turned_down(ctx: Context, plan: Plan) -> bool:
    """Whether the move itself would be refused: a query that is there already is left, an open operation joined."""
    refused = next((gate.name for gate in plan.refusing), None)
    if refused == "no-operation-open":
        standing = open_operation(ctx.store, plan.query)
        if standing is None:
            return False
        same = plan.rewind is None or standing.parameters.get("to_time") == plan.rewind.to_time
        return standing.target != plan.target or not same
    return refused not in {None, THERE}


def _print_plans(ctx: Context, plans: Sequence[Plan], flags: Flags, output: str, *, many: bool) -> None:
    if output in {"json", "yaml"}:
        shown = [plan.as_json() for plan in plans]
        render.document(shown if many else shown[0], output)
    elif output == "tsv":
        found = [{**row.as_json(), "query": plan.query} for plan in plans for row in plan.partitions]
        render.show(found, output, columns=("query", *PARTITION_COLUMNS))
        for line in refusals(plans):
            render.talk(line)
    else:
        render.say(plans_text(ctx, plans, flags, moved_last(ctx.store)))
