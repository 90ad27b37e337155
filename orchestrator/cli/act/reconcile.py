"""``reconcile``: after a store was restored, take what runs as the truth."""

import re
from collections.abc import Sequence

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, ask_yes, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.cli.selection import check_one_or_all
from orchestrator.decide.reconcile import lost_text, put_back_text
from orchestrator.errors import ExitCode, Refused, UsageError
from orchestrator.operation.reconcile import Sides, lost_of, reconcile_by_hand, sides_of
from orchestrator.operation.reconcile import reconcile as write_down
from orchestrator.shapes import json_shapes
from state.model.entities import Assignment

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_AGAIN = "run the command again: it says whether it was saved, and is safe to repeat"
SIDE_COLUMNS = ("side", "epoch", "cluster", "runner", "checkpoint", "state", "batch", "at")


@click.command()
@click.argument("query", required=False, shell_complete=context.complete_query)
@click.option("--all", "every", is_flag=True, help="Every declared query of which a runner reports where it runs.")
@click.option(
    "--cluster",
    metavar="CLUSTER",
    shell_complete=context.complete_cluster,
    help="The cluster that the query last ran on, if no runner can report it.",
)
@click.option("--checkpoint", metavar="FOLDER", help="With --cluster: the checkpoint that it last used there.")
@click.option("--runner", metavar="NAME", help="With --cluster: the runner that is to run it.  [default: as stored]")
@context.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.output
@pass_context
def reconcile(
    ctx: Context,
    query: str | None,
    every: bool,
    cluster: str | None,
    checkpoint: str | None,
    runner: str | None,
    reason: str,
    yes: bool,
    output: str,
) -> int:
    """After an old backup of the store was restored: record where a query really runs.

    No query moves while its runner reports a higher epoch than the store knows. This command shows what the store says
    and what the runner reports, and asks. Then it writes what the runner reports into the store, under a new epoch,
    and closes an operation that the backup holds open; if that operation may have fenced the checkpoint in use, the
    fence is removed first. The runner restarts the query from its own checkpoint. If the store is current: exit 0,
    nothing done.

    If every runner was restarted in the meantime, none can report what it ran. The stored checkpoint is still fenced
    by the operation that moved the query away, and the gate store-current names that operation. Then you have to say
    where the query last ran, with --cluster and --checkpoint. If that is what the store says, because the operation
    had not moved the query yet, the operation is cancelled: the runner removes its fence, once it has checked that no
    checkpoint of that move or of a later one was used.

    With --all each query is shown, and one question is asked for all of them. Queries that no runner can report, or
    that the configuration does not allow where they run, are named and left (exit 1).

    \b
    Examples:
      tideover reconcile revenue
      tideover reconcile --all --reason "backup of Monday restored"
      tideover reconcile revenue --yes --reason "backup of Monday restored"
      tideover reconcile revenue --cluster west --checkpoint /checkpoints/revenue/epoch-2-261121-083525-3fa92c71
    """
    check_one_or_all(ctx, query, every=every)
    if query is None:
        if (cluster, checkpoint, runner) != (None, None, None):
            raise UsageError("--cluster, --checkpoint and --runner are about one query: name it")
        return _all(ctx, reason=reason, yes=yes, output=output)
    if cluster is None and (checkpoint, runner) != (None, None):
        raise UsageError("--checkpoint and --runner need --cluster")
    sides = sides_of(ctx.store, query)
    if cluster is not None:
        if sides is not None:
            raise UsageError(
                f"a runner reports where {query} runs, so --cluster is not needed", hint=f"tideover reconcile {query}"
            )
        return _by_hand(ctx, query, cluster, checkpoint, runner, reason=reason, yes=yes, output=output)
    if sides is None:
        lost = lost_of(ctx.store, query)
        if lost is not None:
            raise UsageError(
                f"no runner reports where {query} runs: name the place with --cluster and --checkpoint",
                hint=lost_text(query, lost.found),
            )
        render.talk(f"the store is current for {query}: nothing done")
        _show(ctx.store.assignment(query), [], output)
        return ExitCode.DONE
    return _one(ctx, query, sides, reason=reason, yes=yes, output=output)


def _one(ctx: Context, query: str, sides: Sides, *, reason: str, yes: bool, output: str) -> int:
    """Write down what a runner reports of a query, once a person has agreed."""
    stored, runs = json_shapes.assignment_side(sides.stored), json_shapes.fact_side(sides.runs)
    if not yes:
        told = put_back_text(sides.stored, sides.runs)
        _ask(told, [stored, runs], f"Save in the store what runner {sides.runs.runner} reports of {query}?")
    with unknown_if_lost("the reconcile", hint=_AGAIN):
        now = write_down(ctx.store, ctx.settings, sides, actor=this_person(), reason=reason)
    _show(now, [stored, runs], output)
    return ExitCode.DONE


def _all(ctx: Context, *, reason: str, yes: bool, output: str) -> int:
    """Reconcile every query that a runner reports; one that cannot be is reported, and stops no other."""
    found = {name: sides_of(ctx.store, name) for name in ctx.settings.queries}
    sides = {name: each for name, each in found.items() if each is not None}
    left = []
    for name in found.keys() - sides.keys():
        lost = lost_of(ctx.store, name)
        if lost is not None:
            left.append(f"{lost_text(name, lost.found)}; reconcile {name} alone, with --cluster and --checkpoint")
    rows = [
        {"query": name, **row}
        for name, each in sides.items()
        for row in (json_shapes.assignment_side(each.stored), json_shapes.fact_side(each.runs))
    ]
    if sides and not yes:
        told = "\n".join(put_back_text(each.stored, each.runs) for each in sides.values())
        question = f"Save in the store what the runners report of {len(sides)} queries?"
        _ask(told, rows, question, columns=("query", *SIDE_COLUMNS))
    for name, each in sides.items():
        try:
            with unknown_if_lost("the reconcile", hint=_AGAIN):
                now = write_down(ctx.store, ctx.settings, each, actor=this_person(), reason=reason)
        except Refused as error:
            left.append(str(error))
            continue
        rows.append({"query": name, **json_shapes.assignment_side(now), "side": "now"})
    if not sides and not left:
        render.talk(f"the store is current for all {len(found)} queries: nothing done")
    for text in sorted(left):
        render.talk(text)
    if rows or output in {"json", "yaml"}:
        render.show(sorted(rows, key=lambda row: str(row["query"])), output, columns=("query", *SIDE_COLUMNS))
    return ExitCode.REFUSED if left else ExitCode.DONE


def _by_hand(
    ctx: Context,
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
        raise UsageError("--cluster needs --checkpoint with an absolute path or a URI")
    lost = lost_of(ctx.store, query)
    if lost is None:
        render.talk(f"nothing shows that {query} runs anywhere but where the store says: nothing done")
        _show(ctx.store.assignment(query), [], output)
        return ExitCode.DONE
    stored = json_shapes.assignment_side(lost.stored)
    if not yes:
        question = f"Did {query} last run on {cluster} from {checkpoint}, and is it stopped everywhere now?"
        _ask(lost_text(query, lost.found), [stored], question)
    with unknown_if_lost("the reconcile", hint=_AGAIN):
        now = reconcile_by_hand(
            ctx.store,
            ctx.settings,
            lost,
            cluster=cluster,
            checkpoint=checkpoint,
            runner=runner,
            actor=this_person(),
            reason=reason,
        )
    _show(now, [stored], output)
    return ExitCode.DONE


def _ask(told: str, rows: list[dict[str, object]], question: str, *, columns: Sequence[str] = SIDE_COLUMNS) -> None:
    """Show what is known, then ask. Raises ``UsageError`` where no person can answer, and ``Refused``."""
    require_person(hint=told)
    render.talk(told + "\n\n" + render.table(rows, columns) + "\n")
    ask_yes(question)


def _show(now: Assignment | None, before: list[dict[str, object]], output: str) -> None:
    rows = [*before, {**json_shapes.assignment_side(now), "side": "now"}]
    if before or output in {"json", "yaml"}:
        render.show(rows, output, columns=SIDE_COLUMNS)
