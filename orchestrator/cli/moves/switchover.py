"""``switchover``: move queries while both clusters are alive, with nothing lost and nothing read twice."""

from typing import Any

import click

from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.moves.move import move
from orchestrator.cli.moves.options import how, to, waves, which
from state.model.entities import OperationKind


@click.command()
@which
@waves
@to
@how
@pass_context
def switchover(ctx: Context, /, **options: Any) -> int:
    """Move queries to another cluster while both are alive: nothing is lost, and nothing is read twice.

    Each query finishes its batch and stops. It starts on the other cluster as soon as that has every record that
    the query has read. If that takes longer than policy.catch_up (60 s), the query goes back to where it was.
    Refused while nothing proves that the replicator runs. If the old cluster dies before it is done, tideover failover
    with the same query and cluster continues without waiting; tideover cancel ID takes the query back.

    A query that reads what another one writes begins when that one is committed; if that one goes back, it stays.

    \b
    Examples:
      tideover switchover revenue
      tideover switchover revenue clicks --to west
      tideover switchover --all --expect-active east --yes --reason "maintenance of east"
    """
    return move(ctx, OperationKind.SWITCHOVER, **options)
