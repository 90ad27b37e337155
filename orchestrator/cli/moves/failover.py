"""``failover``: move queries to their standby."""

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
def failover(ctx: Context, /, **options: Any) -> int:
    """Move queries to their standby cluster. They keep their state and resume where they stopped.

    Already there: exit 0, nothing done. If an operation of the query is open, the command joins it. If the query has
    moved since the plan was shown, the move is refused. Without a terminal, --yes is required. With --all or --label,
    and always without a terminal, --to or --expect-active is required: a second run would move the queries back.

    \b
    Examples:
      tideover failover revenue
      tideover failover revenue clicks --to west
      tideover failover --all --to west --yes --reason "east is down"
      tideover failover revenue --expect-active east --yes -o json
    """
    return move(ctx, OperationKind.FAILOVER, **options)
