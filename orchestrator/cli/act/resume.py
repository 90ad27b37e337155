"""``resume``: end a pause before its time."""

import click

from orchestrator.cli import context, json_shapes, render
from orchestrator.cli.act.pause import AGAIN, PAUSE_COLUMNS, scope_of
from orchestrator.cli.context import World, pass_world
from orchestrator.cli.prompts import this_person, unknown_if_lost
from orchestrator.decide.gates.automatic import paused_text
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode
from orchestrator.operation import pauses
from state.model.automation import EVERY


@click.command()
@click.argument("query", required=False, shell_complete=context.complete_query)
@click.option("--all", "every", is_flag=True, help="End the pause of --all; pauses of single queries stay.")
@context.reason
@context.output
@pass_world
def resume(world: World, query: str | None, every: bool, reason: str, output: str) -> int:
    """End a pause before its time. Resuming moves nothing by itself.

    A cluster that was down before the pause ended, by this verb or by its time, moves no query automatically
    afterwards: it must come back and go down anew, or a person types failover.

    \b
    Examples:
      tideover resume revenue --reason "upgrade is done"
      tideover resume --all
    """
    scope, store = scope_of(world, query, every), world.store
    with unknown_if_lost("the end of the pause", hint=AGAIN):
        ended = pauses.resume(store, scope, actor=this_person(), reason=reason)
        standing = pauses.still_paused(store.pauses(), store.now())
        statuses = store.cluster_statuses()
    if ended is None:
        render.talk(f"{'no pause of --all' if scope == EVERY else f'no pause of {scope}'} is in force: nothing done")
    if ended is not None or output in {"json", "yaml"}:
        render.show([json_shapes.pause_row(ended)] if ended else [], output, columns=PAUSE_COLUMNS)
    for still in standing:
        if scope == EVERY or still.covers(scope):
            render.talk(f"still paused: {paused_text(still)}")
    for status in statuses:
        if status.down_since is not None:
            render.talk(
                f"{status.cluster} is down since {iso(status.down_since)}: what is there stays until failover is typed"
            )
    return ExitCode.DONE
