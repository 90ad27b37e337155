"""``rewind``: let a query read again what it has read since a time, on the cluster where it runs."""

from collections.abc import Mapping
from datetime import timedelta

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, confirm, is_attended, pass_context, this_person
from orchestrator.cli.moves.move import Aim, carry_out, check_led, confirm_consents, plans_of
from orchestrator.cli.moves.options import Flags, How, consents, how
from orchestrator.cli.operation_text import plan_text
from orchestrator.decide.times import instant, parse_time
from orchestrator.errors import UsageError
from orchestrator.facts.current import run_of
from orchestrator.new_requests import RequestSpec
from state.model.entities import OperationKind
from state.plain_text import amount


def back(command: context.Command) -> context.Command:
    """The query, the time, and consents."""
    for decorate in (
        consents,
        click.option("--to-time", required=True, metavar="TIME",
                     help="Milliseconds since the epoch, ISO 8601 with a zone, or -15m before now."),
        click.argument("query", shell_complete=context.complete_query),
    ):  # fmt: skip
        command = decorate(command)
    return command


@click.command()
@back
@how
@pass_context
def rewind(ctx: Context, query: str, to_time: str, consents: tuple[str, ...], how: How) -> int:
    """Let a query read again what it has read since a time. It stays on its cluster.

    A query without state begins at the first record at or after TIME. One with state goes back to the newest batch
    planned at or before TIME, with its offsets, state and watermark; Spark keeps the last 100 batches. What lies
    between is read again, and the sink gets it again: the plan counts it and says what the sink does with it. The old
    checkpoint stays. Without a terminal, --yes is required.

    \b
    Examples:
      tideover plan rewind revenue --to-time -2h
      tideover rewind revenue --to-time 2026-01-31T12:00:00Z
      tideover rewind revenue --to-time -15m --yes --reason "the sink lost a table"
    """
    if not is_attended() and not how.yes:
        raise UsageError(
            "without a terminal, rewind needs --yes", hint=f"tideover rewind {query} --to-time {to_time} --yes"
        )
    aim, parameters, flags = aim_of(ctx, query, to_time, consents, how.reason)
    if is_attended() and not how.yes:
        _confirm(ctx, aim, flags)
    check_led(ctx, wait=how.wait)
    spec = RequestSpec(
        kind=OperationKind.REWIND,
        targets={query: aim.target},
        expect_active={query: aim.target},
        actor=this_person(),
        reason=how.reason,
        consents=consents,
        runs={query: aim.run},
        within=timedelta(seconds=how.timeout),
        parameters=parameters,
    )
    return carry_out(ctx, spec, how, many=False)


def aim_of(
    ctx: Context, query: str, to_time: str, consents: tuple[str, ...], reason: str = ""
) -> tuple[Aim, Mapping[str, object], Flags]:
    """Where the query is and stays, and the time as it is requested. Raises ``UsageError`` for what is no time."""
    declared, assignment = ctx.query(query), ctx.store.assignment(query)
    try:
        # Back from now by the store's clock, which stamped what is known of the query.
        parameters: Mapping[str, object] = {"to_time": instant(parse_time(to_time, ctx.store.now()))}
    except ValueError as error:
        raise UsageError(str(error)) from None
    here = assignment.cluster if assignment is not None else declared.clusters[0]
    aim = Aim(query=query, active=assignment.cluster if assignment else None, target=here, run=run_of(ctx.store, query))
    flags = Flags(
        queries=(query,), to=here, expect_active=None, reason=reason, consents=consents, parameters=parameters
    )
    return aim, parameters, flags


def _confirm(ctx: Context, aim: Aim, flags: Flags) -> None:
    """Show the plan, name the number, wait for a confirmation. Raises ``Refused``."""
    (plan,) = plans_of(ctx, OperationKind.REWIND, [aim], flags)
    render.talk(plan_text(plan) + "\n")
    count = plan.totals.replay_records
    records = "an unknown number of records" if count is None else amount(count, "record")
    confirm(f"Stop {aim.query} and read {records} again?")
    confirm_consents([aim], flags)
