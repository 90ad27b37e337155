"""``ack``: say that you have seen what automatic failover did to a query."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.act.pause import AGAIN
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.decide.gates.automatic import cooldown_text
from orchestrator.errors import ExitCode
from orchestrator.operation import pauses
from orchestrator.shapes import json_shapes

ACK_COLUMNS = ("query", "operation", "actor", "reason", "at")


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@context.reason
@context.output
@pass_context
def ack(ctx: Context, query: str, reason: str, output: str) -> int:
    """Confirm that you have seen what automatic failover did to a query. This ends its cool-down.

    Automatic failover of the query may act again from now on: at once if the cluster that it is on is down.

    \b
    Example:
      tideover ack revenue --reason "looked at it, west is fine"
    """
    ctx.query(query)
    before = pauses.cooldowns(ctx.store, ctx.settings).get(query)
    with unknown_if_lost("the acknowledgement", hint=AGAIN):
        given = pauses.acknowledge(ctx.store, ctx.settings, query, actor=this_person(), reason=reason)
    if given is None:
        render.talk(f"{query} is not in cool-down, nothing to acknowledge: nothing done")
    elif before is not None:
        render.talk(f"cool-down ended: {cooldown_text(before, query)}")
    if given is not None or output in {"json", "yaml"}:
        render.show([json_shapes.acknowledgement_row(given)] if given else [], output, columns=ACK_COLUMNS)
    return ExitCode.DONE
