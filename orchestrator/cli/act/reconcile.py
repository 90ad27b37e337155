"""``reconcile``: after a store was put back, take what runs as the truth."""

import re

import click

from orchestrator.cli import context, json_shapes, render
from orchestrator.cli.context import World, pass_world
from orchestrator.cli.prompts import ask_yes, require_person, this_person, unknown_if_lost
from orchestrator.decide.reconcile import lost_text, put_back_text
from orchestrator.errors import ExitCode, UsageError
from orchestrator.operation.reconcile import answer_for, lost_of, sides_of
from orchestrator.operation.reconcile import reconcile as write_down
from state.model.entities import Assignment

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
SIDE_COLUMNS = ("side", "epoch", "cluster", "runner", "checkpoint", "state", "batch", "at")


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@click.option(
    "--cluster",
    metavar="CLUSTER",
    shell_complete=context.complete_cluster,
    help="Where the query went, when no runner can tell.",
)
@click.option("--checkpoint", metavar="FOLDER", help="With --cluster: from which checkpoint it runs there.")
@click.option("--runner", metavar="NAME", help="With --cluster: who shall run it.  [default: as stored]")
@context.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.output
@pass_world
def reconcile(
    world: World,
    query: str,
    cluster: str | None,
    checkpoint: str | None,
    runner: str | None,
    reason: str,
    yes: bool,
    output: str,
) -> int:
    """Take what runs as the truth, where the store was put back to an older copy.

    Nothing is moved while a runner reports a higher epoch than the store knows. This shows both sides and
    asks; then the assignment says what the runner reports, under an epoch above it, and an operation that
    the old copy holds open is closed; one that may have fenced the checkpoint that runs is undone first. The
    runner starts the query anew from its own checkpoint. A store that is current: exit 0, nothing done.

    Where every runner was started anew since, none can report what it ran; but the stored checkpoint is still
    held by the operation that moved the query away, and the gate store-current names it. Then say yourself
    where the query went, with --cluster and --checkpoint. Where that is the stored place, because the operation
    had moved nothing yet, it is given up: the runner takes away what it planted, once it has seen that no
    checkpoint of that move, or of a later one, was run.

    \b
    Examples:
      tideover reconcile revenue
      tideover reconcile revenue --yes --reason "backup of Monday restored"
      tideover reconcile revenue --cluster west --checkpoint /checkpoints/revenue/epoch-2-261121-083525-3fa92c71
    """
    world.query(query)
    if cluster is None and (checkpoint, runner) != (None, None):
        raise UsageError("--checkpoint and --runner go with --cluster")
    sides = sides_of(world.store, query)
    if cluster is not None:
        if sides is not None:
            raise UsageError(f"a runner tells where {query} runs", hint=f"tideover reconcile {query}")
        return _by_hand(world, query, cluster, checkpoint, runner, reason=reason, yes=yes, output=output)
    if sides is None:
        lost = lost_of(world.store, query)
        if lost is not None:
            raise UsageError(
                f"no runner can tell where {query} runs: say it with --cluster and --checkpoint",
                hint=lost_text(query, lost.found),
            )
        render.talk(f"no runner reports an epoch of {query} that the store does not know: nothing done")
        _show(world.store.assignment(query), [], output)
        return ExitCode.DONE
    stored, runs = json_shapes.assignment_side(sides.stored), json_shapes.fact_side(sides.runs)
    if not yes:
        told = put_back_text(sides.stored, sides.runs)
        _ask(told, [stored, runs], f"Take {query} as runner {sides.runs.runner} runs it?")
    with unknown_if_lost("what runs", hint="the same command again looks anew, and says whether it was kept"):
        now = write_down(world.store, world.settings, sides, actor=this_person(), reason=reason)
    _show(now, [stored, runs], output)
    return ExitCode.DONE


def _by_hand(
    world: World,
    query: str,
    cluster: str,
    checkpoint: str | None,
    runner: str | None,
    *,
    reason: str,
    yes: bool,
    output: str,
) -> int:
    if checkpoint is None or not _ABSOLUTE.match(checkpoint):
        raise UsageError("--cluster needs --checkpoint, with an absolute path or a URI")
    lost = lost_of(world.store, query)
    if lost is None:
        render.talk(f"nothing says that {query} runs elsewhere than the store knows: nothing done")
        _show(world.store.assignment(query), [], output)
        return ExitCode.DONE
    stored = json_shapes.assignment_side(lost.stored)
    if not yes:
        question = f"Did {query} run on {cluster} from {checkpoint} last, and does nothing of it run anywhere now?"
        _ask(lost_text(query, lost.found), [stored], question)
    with unknown_if_lost("what runs", hint="the same command again looks anew, and says whether it was kept"):
        now = answer_for(
            world.store,
            world.settings,
            lost,
            cluster=cluster,
            checkpoint=checkpoint,
            runner=runner,
            actor=this_person(),
            reason=reason,
        )
    _show(now, [stored], output)
    return ExitCode.DONE


def _ask(told: str, rows: list[dict[str, object]], question: str) -> None:
    """Show what is known, then ask. Raises ``UsageError`` where nobody is there, and ``Refused``."""
    require_person(hint=told)
    render.talk(told + "\n\n" + render.table(rows, SIDE_COLUMNS) + "\n")
    ask_yes(question)


def _show(now: Assignment | None, before: list[dict[str, object]], output: str) -> None:
    rows = [*before, {**json_shapes.assignment_side(now), "side": "now"}]
    if before or output in {"json", "yaml"}:
        render.show(rows, output, columns=SIDE_COLUMNS)
