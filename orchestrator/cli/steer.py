"""Verbs that steer automatic mode: ``pause``, ``resume``, ``ack``. They move nothing, so they ask nothing."""

from datetime import datetime

import click

from orchestrator import steering
from orchestrator.cli import options, render, shapes
from orchestrator.cli.person import this_person
from orchestrator.cli.unknown import unknown_if_lost
from orchestrator.cli.world import World, pass_world
from orchestrator.decide.automatic import cooldown_text, paused_text
from orchestrator.decide.times import iso, parse_end
from orchestrator.errors import ExitCode, UsageError
from state.automation import EVERY

PAUSE_COLUMNS = ("scope", "since", "until", "actor", "reason", "resumed_at")
ACK_COLUMNS = ("query", "operation", "actor", "reason", "at")
_AGAIN = "the same command again does no harm; tideover history shows what was kept"


def _scope(world: World, query: str | None, every: bool) -> str:
    options.check_one_or_all(world, query, every=every)
    return EVERY if query is None else query


@click.command()
@click.argument("query", required=False)
@click.option("--all", "every", is_flag=True, help="Every query, also those declared later.")
@click.option("--until", metavar="TIME", help="When it ends by itself. Default: only when somebody resumes.")
@options.reason
@options.output
@pass_world
def pause(world: World, query: str | None, every: bool, until: str | None, reason: str, output: str) -> None:
    """Keep automatic failover from a query, or from all of them, for a while.

    TIME is 2h from now, ISO 8601 with a zone, or milliseconds since the epoch. A pause survives restarts and replaces
    the earlier one of the same query (or of --all). Verbs that a person types are not paused, and neither is an
    operation that is under way.

    \b
    Examples:
      tideover pause revenue --until 2h --reason "broker upgrade"
      tideover pause --all --until 2030-01-31T18:00:00Z
    """
    scope = _scope(world, query, every)
    end: datetime | None = None
    if until is not None:
        try:
            end = parse_end(until, world.store.now())
        except ValueError as error:
            raise UsageError(str(error)) from error
    with unknown_if_lost("the pause", hint=_AGAIN):
        made = steering.pause(world.store, scope, until=end, actor=this_person(), reason=reason)
        under_way = world.store.operations(only_open=True)
    render.show([shapes.pause_row(made)], output, columns=PAUSE_COLUMNS)
    for operation in under_way:
        if made.covers(operation.query):
            render.talk(f"operation {operation.id} of {operation.query} is under way, and goes on")


@click.command()
@click.argument("query", required=False)
@click.option("--all", "every", is_flag=True, help="End the pause of --all; pauses of single queries stay.")
@options.reason
@options.output
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
    scope, store = _scope(world, query, every), world.store
    with unknown_if_lost("the end of the pause", hint=_AGAIN):
        ended = steering.resume(store, scope, actor=this_person(), reason=reason)
        standing = steering.still_paused(store.pauses(), store.now())
        beliefs = store.beliefs()
    if ended is None:
        render.talk(f"{'no pause of --all' if scope == EVERY else f'no pause of {scope}'} is in force: nothing done")
    if ended is not None or output in {"json", "yaml"}:
        render.show([shapes.pause_row(ended)] if ended else [], output, columns=PAUSE_COLUMNS)
    for still in standing:
        if scope == EVERY or still.covers(scope):
            render.talk(f"still paused: {paused_text(still)}")
    for belief in beliefs:
        if belief.down_since is not None:
            render.talk(
                f"{belief.cluster} is down since {iso(belief.down_since)}: what is there stays until failover is typed"
            )
    return ExitCode.DONE


@click.command()
@click.argument("query")
@options.reason
@options.output
@pass_world
def ack(world: World, query: str, reason: str, output: str) -> int:
    """Say that you have seen what automatic mode did to a query: its cool-down is over.

    From then on automatic failover may act again, at once if the cluster where the query is now is down.

    \b
    Example:
      tideover ack revenue --reason "looked at it, west is fine"
    """
    world.query(query)
    before = steering.cooldowns(world.store, world.settings).get(query)
    with unknown_if_lost("the acknowledgement", hint=_AGAIN):
        given = steering.acknowledge(world.store, world.settings, query, actor=this_person(), reason=reason)
    if given is None:
        render.talk(f"there is nothing to acknowledge of {query}: nothing done")
    elif before is not None:
        render.talk(f"over: {cooldown_text(before, query)}")
    if given is not None or output in {"json", "yaml"}:
        render.show([shapes.acknowledgement_row(given)] if given else [], output, columns=ACK_COLUMNS)
    return ExitCode.DONE
