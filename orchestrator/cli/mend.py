"""``reconcile``: after a store was put back, take what runs as the truth."""

import click

from orchestrator.cli import options, render, shapes
from orchestrator.cli.person import ask_yes, is_attended, this_person
from orchestrator.cli.unknown import unknown_if_lost
from orchestrator.cli.world import World, pass_world
from orchestrator.decide.reconcile import put_back_text
from orchestrator.errors import ExitCode, UsageError
from orchestrator.reconciling import reconcile as write_down
from orchestrator.reconciling import sides_of
from state.model import Assignment

SIDE_COLUMNS = ("side", "epoch", "cluster", "runner", "checkpoint", "state", "batch", "at")


@click.command()
@click.argument("query")
@options.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.output
@pass_world
def reconcile(world: World, query: str, reason: str, yes: bool, output: str) -> int:
    """Take what runs as the truth, where the store was put back to an older copy.

    Nothing is moved while a runner reports a higher epoch than the store knows. This shows both sides and
    asks; then the assignment says what the runner reports, under an epoch above it, and an operation that
    the old copy holds open is closed. The runner starts the query anew from its own checkpoint. A store that
    is current: exit 0, nothing done.

    \b
    Examples:
      tideover reconcile revenue
      tideover reconcile revenue --yes --reason "backup of Monday restored"
    """
    world.query(query)
    sides = sides_of(world.store, query)
    if sides is None:
        render.talk(f"no runner reports an epoch of {query} that the store does not know: nothing done")
        _show(world.store.assignment(query), [], output)
        return ExitCode.DONE
    stored, runs = shapes.assignment_side(sides.stored), shapes.fact_side(sides.runs)
    if not yes:
        if not is_attended():
            raise UsageError("without a terminal this needs --yes", hint=put_back_text(sides.stored, sides.runs))
        render.talk(
            put_back_text(sides.stored, sides.runs) + "\n\n" + render.table([stored, runs], SIDE_COLUMNS) + "\n"
        )
        ask_yes(f"Take {query} as runner {sides.runs.runner} runs it?")
    with unknown_if_lost("what runs", hint="the same command again looks anew, and says whether it was kept"):
        now = write_down(world.store, world.settings, sides, actor=this_person(), reason=reason)
    _show(now, [stored, runs], output)
    return ExitCode.DONE


def _show(now: Assignment | None, before: list[dict[str, object]], output: str) -> None:
    rows = [*before, {**shapes.assignment_side(now), "side": "now"}]
    if before or output in {"json", "yaml"}:
        render.show(rows, output, columns=SIDE_COLUMNS)
