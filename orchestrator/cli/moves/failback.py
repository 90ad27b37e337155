"""``failback``: move queries home again."""

from typing import Any

import click

from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.moves.move import move
from orchestrator.cli.moves.options import home, how, waves, which
from state.model.entities import OperationKind


@click.command()
@which
@waves
@home
@how
@pass_context
def failback(ctx: Context, /, **options: Any) -> int:
    """Move queries home, to the first of their clusters, while both clusters are alive.

    Like switchover, after replication was reversed: refused while nothing proves that the replicator
    copies towards home, or while one still copies the other way. Records that only the home cluster had when the
    query left it stay unread there; tideover show-op ID --tail lists them. No query returns automatically.

    \b
    Examples:
      tideover plan failback --all
      tideover failback revenue
      tideover failback --all --yes --reason "east is back"
    """
    return move(ctx, OperationKind.FAILBACK, **options)
