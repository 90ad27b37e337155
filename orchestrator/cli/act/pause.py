"""``pause``: keep automatic failover from queries for a while."""

from datetime import datetime

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.cli.selection import check_one_or_all
from orchestrator.decide.times import parse_end
from orchestrator.errors import UsageError
from orchestrator.facts.current import open_operations
from orchestrator.operation import pauses
from orchestrator.shapes import query_shapes
from state.model.automation import EVERY

PAUSE_COLUMNS = ("scope", "since", "until", "actor", "reason", "resumed_at")
AGAIN = "tideover history shows whether it was saved; the command is safe to repeat"


def scope_of(ctx: Context, query: str | None, every: bool) -> str:
    check_one_or_all(ctx, query, every=every)
    return EVERY if query is None else query


@click.command()
@click.argument("query", required=False, shell_complete=context.complete_query)
@click.option("--all", "every", is_flag=True, help="Every query, including those declared later.")
@click.option("--until", metavar="TIME", help="When the pause ends. Default: when tideover resume ends it.")
@context.reason
@context.output
@pass_context
def pause(ctx: Context, query: str | None, every: bool, until: str | None, reason: str, output: str) -> None:
    """Pause automatic failover of one query, or of all.

    TIME is 2h from now, ISO 8601 with a zone, or milliseconds since the epoch. A pause survives restarts and replaces
    an earlier pause of the same query (or of --all). It does not stop commands that you type, nor a move whose fence
    is proven.

    \b
    Examples:
      tideover pause revenue --until 2h --reason "broker upgrade"
      tideover pause --all --until 2030-01-31T18:00:00Z
    """
    scope = scope_of(ctx, query, every)
    end: datetime | None = None
    if until is not None:
        try:
            end = parse_end(until, ctx.store.now())
        except ValueError as error:
            raise UsageError(str(error)) from error
    with unknown_if_lost("the pause", hint=AGAIN):
        made = pauses.pause(ctx.store, scope, until=end, actor=this_person(), reason=reason)
        under_way = open_operations(ctx.store)
    render.show([query_shapes.pause_row(made)], output, columns=PAUSE_COLUMNS)
    for operation in under_way:
        if made.covers(operation.query):
            render.talk(f"operation {operation.id} of {operation.query} has already begun and continues")
