"""``resume``: end a pause before its time."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.act.pause import AGAIN, PAUSE_COLUMNS, scope_of
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.decide.gates.automatic import paused_text
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode
from orchestrator.operation import pauses
from orchestrator.shapes import query_shapes
from state.model.automation import EVERY


@click.command()
@click.argument("query", required=False, shell_complete=context.complete_query)
@click.option(
    "--all", "every", is_flag=True, help="End the pause that was set with --all. Pauses of single queries stay."
)
@context.reason
@context.output
@pass_context
def resume(ctx: Context, query: str | None, every: bool, reason: str, output: str) -> int:
    """End a pause of automatic failover early. Resuming moves no query.

    If a cluster was already down when the pause ended (by this command or by time), its queries are not moved
    automatically. The cluster must recover and go down again, or you type tideover failover.

    \b
    Examples:
      tideover resume revenue --reason "upgrade is done"
      tideover resume --all
    """
    scope, store = scope_of(ctx, query, every), ctx.store
    with unknown_if_lost("the end of the pause", hint=AGAIN):
        ended = pauses.resume(store, scope, actor=this_person(), reason=reason)
        standing = pauses.still_paused(store.pauses(), store.now())
        statuses = store.cluster_statuses()
    if ended is None:
        render.talk(f"there is no pause of {'all queries' if scope == EVERY else scope} to end: nothing done")
    if ended is not None or output in {"json", "yaml"}:
        render.show([query_shapes.pause_row(ended)] if ended else [], output, columns=PAUSE_COLUMNS)
    for still in standing:
        if scope == EVERY or still.covers(scope):
            render.talk(f"still paused: {paused_text(still)}")
    for status in statuses:
        if status.down_since is not None:
            render.talk(
                f"{status.cluster} has been down since {iso(status.down_since)}: its queries stay there until you type "
                f"tideover failover --all --expect-active {status.cluster}"
            )
    return ExitCode.DONE
