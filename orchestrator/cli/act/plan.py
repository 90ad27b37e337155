"""``plan failover`` and ``plan switchover``: what a move would do, gates included. Changes nothing."""

from collections.abc import Mapping

import click

from orchestrator.cli import context, render
from orchestrator.cli.act.move import aims_of, flags_of, plans_of, which
from orchestrator.cli.context import Context, pass_context
from orchestrator.errors import ExitCode
from orchestrator.operation.open_operations import open_operation
from state.model.entities import OperationKind


@click.group()
def plan() -> None:
    """Show what a move would do, and what every gate says. Changes nothing."""


@plan.command("failover")
@which
@context.output
@pass_context
def plan_failover(
    ctx: Context,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    output: str,
) -> int:
    """Show what failover would do: where each partition resumes, by which method, and what it costs.

    \b
    Examples:
      tideover plan failover revenue
      tideover plan failover --all --to west -o json
    """
    return _plan(ctx, OperationKind.FAILOVER, queries, every, to, expect_active, consents, output)


@plan.command("switchover")
@which
@context.output
@pass_context
def plan_switchover(
    ctx: Context,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    output: str,
) -> int:
    """Show what switchover would do: whether the replicator runs, and what the other cluster still lacks.

    A switchover waits for what is lacking (gate caught-up) for as long as policy.catch_up says.

    \b
    Examples:
      tideover plan switchover revenue
      tideover plan switchover --all --to east -o json
    """
    return _plan(ctx, OperationKind.SWITCHOVER, queries, every, to, expect_active, consents, output)


def _plan(
    ctx: Context,
    kind: OperationKind,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    output: str,
) -> int:
    flags = flags_of(ctx, queries, every, to, expect_active, consents, "")
    aims = aims_of(ctx, flags, every=every)
    plans = list(plans_of(ctx, kind, aims, flags))
    _print_plans(plans, output, many=every or len(flags.queries) > 1)
    return ExitCode.REFUSED if any(_is_turned_down(ctx, value) for value in plans) else ExitCode.DONE


def _is_turned_down(ctx: Context, value: Mapping[str, object]) -> bool:
    """Whether the move itself would be refused: a query that is there already is left, an open operation joined."""
    gates = value["gates"]
    assert isinstance(gates, list)
    refused = next((gate["name"] for gate in gates if not gate["ok"]), None)
    if refused == "no-operation-open":
        standing = open_operation(ctx.store, str(value["query"]))
        return standing is not None and standing.target != value["to"]
    return refused not in {None, "not-already-there"}


def _print_plans(plans: list[dict[str, object]], output: str, *, many: bool) -> None:
    if output in {"json", "yaml"}:
        render.document(plans if many else plans[0], output)
    elif output == "tsv":
        found = [{**row, "query": value["query"]} for value in plans for row in render.rows_of(value)]
        render.show(found, output, columns=("query", *render.PARTITION_COLUMNS))
        for line in render.refusals(plans):
            render.talk(line)
    else:
        render.say("\n\n".join(render.plan(value) for value in plans))
