"""``switchover``: move queries while both clusters are alive, with nothing lost and nothing read twice."""

import click

from orchestrator.cli.act.move import how, move, which
from orchestrator.cli.context import Context, pass_context
from state.model.entities import OperationKind


@click.command()
@which
@how
@pass_context
def switchover(
    ctx: Context,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    reason: str,
    yes: bool,
    wait: bool,
    timeout: float,
    output: str,
) -> int:
    """Move queries to another cluster while both are alive: nothing is lost, and nothing is read twice.

    Each query finishes its batch and stops. It starts on the other cluster as soon as that has every record that
    the query has read. If that takes longer than policy.catch_up (60 s), the query goes back to where it was.
    Refused while nothing proves that the replicator runs. If the old cluster dies meanwhile, tideover failover
    with the same query and cluster goes on without waiting; tideover cancel ID takes the query back.

    \b
    Examples:
      tideover switchover revenue
      tideover switchover revenue clicks --to west
      tideover switchover --all --expect-active east --yes --reason "maintenance of east"
    """
    return move(
        ctx, OperationKind.SWITCHOVER, queries, every, to, expect_active, consents, reason, yes, wait, timeout, output
    )
