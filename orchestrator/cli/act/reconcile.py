"""``reconcile``: after a store was restored, take what runs as the truth."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, confirm, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.cli.selection import check_one_or_all
from orchestrator.decide.reconcile import put_back_text
from orchestrator.errors import ExitCode, Refused, UsageError
from orchestrator.operation.reconcile import (
    Contradicted,
    Lost,
    Sides,
    accept_files,
    contradicted_of,
    lost_of,
    reconcile_as_found,
    reconcile_by_hand,
    sides_of,
)
from orchestrator.operation.reconcile import reconcile as write_down
from orchestrator.shapes import query_shapes
from state.model.entities import Assignment
from state.settings.keys import Sink

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_REPEATS, _LOSS = "repeats", "loss"
_ON_REPEAT = {
    Sink.KEYED: "",
    Sink.APPEND: ". Delta, Iceberg, Hudi and files know a batch by its id, and may drop new records that come under it",
    Sink.BATCH_ID: ". Its sink drops a batch whose id it has (sink: batch-id). Where such an id comes again with other "
    "records, those are lost: first delete from the sink what came after the newest batch of these files",
}
_AGAIN = "run the command again: it says whether it was saved, and is safe to repeat"
SIDE_COLUMNS = ("side", "epoch", "cluster", "runner", "checkpoint", "state", "batch", "at")


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What was typed beside the queries."""

    cluster: str | None
    checkpoint: str | None
    runner: str | None
    consent: str | None
    reason: str
    yes: bool
    output: str


@click.command()
@click.argument("query", required=False, shell_complete=context.complete_query)
@click.option("--all", "every", is_flag=True, help="Every declared query.")
@click.option(
    "--cluster",
    metavar="CLUSTER",
    shell_complete=context.complete_cluster,
    help="The cluster that the query last ran on, if its files do not show it.",
)
@click.option("--checkpoint", metavar="FOLDER", help="With --cluster: the checkpoint that it last used there.")
@click.option(
    "--runner", metavar="NAME", help="The runner that is to run it, if none runs it now.  [default: as stored]"
)
@click.option(
    "--consent",
    type=click.Choice([_REPEATS, _LOSS]),
    help="The files of the checkpoint count, although batches are missing there: they run again. With sink: batch-id, "
    "loss accepts what the sink then drops.",
)
@context.reason
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def reconcile(ctx: Context, /, query: str | None, every: bool, **options: Any) -> int:
    """After the store was lost, or restored from an old backup: record where a query really is.

    No query moves while the store is older than what runs. This command shows what the store says and what its runner
    reports, and wants a confirmation. Then it writes what the runner reports into the store, under a new epoch, and
    closes an operation that the backup holds open. If that operation may have fenced the checkpoint in use, the fence
    is removed first. The runner restarts the query from its own checkpoint. If the store is current: exit 0, nothing
    done.

    A runner that was restarted since does not know what it ran. It reads the query's files instead: each move leaves a
    mapping beside the checkpoint, or a folder of its own, which names the cluster. The command takes that place. A move
    that had fenced the checkpoint and was not committed is undone: the query stays where it was.

    --cluster and --checkpoint are for files that cannot be read, and for folders of an older version that do not name
    their cluster. A place that the files contradict is refused.

    A runner does not start a query from a checkpoint of which files are missing that were there, or that is older than
    what the store knows. Restore the files. Or say --consent repeats: the query starts from what lies there, and its
    sink gets the missing batches a second time. A checkpoint that you made new needs that consent, too. A sink with
    sink: batch-id may drop these batches instead: it needs --consent loss.

    With --all each query is shown, and one confirmation is for all of them. Queries whose place cannot be read, or
    that the configuration does not allow where they are, are named and left (exit 1).

    \b
    Examples:
      tideover reconcile revenue
      tideover reconcile --all --reason "backup of Monday restored"
      tideover reconcile revenue --yes --reason "backup of Monday restored"
      tideover reconcile revenue --consent repeats --reason "checkpoint restored from Monday"
      tideover reconcile revenue --cluster west --checkpoint /checkpoints/revenue/epoch-2-261121-083525-3fa92c71
    """
    check_one_or_all(ctx, query, every=every)
    given = Given(**options)
    return _all(ctx, given) if query is None else _of_query(ctx, query, given)


def _of_query(ctx: Context, query: str, given: Given) -> int:
    """Take what shows where the query is: its runner, its files, or the place that was typed."""
    if given.cluster is None and given.checkpoint is not None:
        raise UsageError("--checkpoint needs --cluster")
    sides = sides_of(ctx.store, query)
    if sides is not None:
        if (given.cluster, given.runner) != (None, None):
            raise UsageError(
                f"a runner reports where {query} runs, so --cluster and --runner are not needed",
                hint=f"tideover reconcile {query}",
            )
        return _one(ctx, query, sides, given)
    lost = lost_of(ctx.store, query)
    found = contradicted_of(ctx.store, query) if lost is None else None
    if found is not None:
        return _accepted(ctx, query, found, given)
    if lost is None:
        text = "the store is current for" if given.cluster is None else "nothing shows that the store is wrong about"
        render.talk(f"{text} {query}: nothing done")
        _show(ctx.store.assignment(query), [], given.output)
        return ExitCode.DONE
    return _as_found(ctx, query, lost, given) if given.cluster is None else _by_hand(ctx, query, lost, given)


def _one(ctx: Context, query: str, sides: Sides, given: Given) -> int:
    """Write down what a runner reports of a query, once a person has agreed."""
    stored, runs = query_shapes.assignment_side(sides.stored), query_shapes.fact_side(sides.runs)
    if not given.yes:
        shown = put_back_text(sides.stored, sides.runs)
        _confirm(shown, [stored, runs], f"Save in the store what runner {sides.runs.runner} reports of {query}?")
    with unknown_if_lost("the reconcile", hint=_AGAIN):
        now = write_down(ctx.store, ctx.settings, sides, actor=this_person(), reason=given.reason)
    _show(now, [stored, runs], given.output)
    return ExitCode.DONE


def _accepted(ctx: Context, query: str, found: Contradicted, given: Given) -> int:
    """Let a query start from its files as they are, once a person has agreed. Raises ``Refused`` without consent."""
    sink = ctx.settings.queries[query].sink
    wanted = _LOSS if sink is Sink.BATCH_ID else _REPEATS
    if given.consent not in {wanted, _LOSS}:
        raise Refused(
            found.text + _ON_REPEAT[sink],
            hint=f"restore the files, or accept what lies there: tideover reconcile {query} --consent {wanted}",
        )
    if found.was_accepted:
        raise Refused(
            f"{found.why}: what is left there cannot be continued from",
            hint=f"restore the files, or empty {found.stored.checkpoint}: {query} then begins at its starting offsets",
        )
    rows = [query_shapes.assignment_side(found.stored), query_shapes.fact_side(found.fact)]
    if not given.yes:
        _confirm(
            found.text, rows, f"Start {query} from the files that lie there, and give its sink these batches again?"
        )
    with unknown_if_lost("the reconcile", hint=_AGAIN):
        now = accept_files(ctx.store, found, actor=this_person(), reason=given.reason)
    _show(now, rows, given.output)
    return ExitCode.DONE


def _as_found(ctx: Context, query: str, lost: Lost, given: Given) -> int:
    """Write down where the files show a query, once a person has agreed."""
    rows = _rows_of(lost)
    if lost.place is not None and lost.place.cluster is not None and not given.yes:
        _confirm(lost.text, rows, f"Save in the store where the files show {query}?")
    with unknown_if_lost("the reconcile", hint=_AGAIN):
        now = reconcile_as_found(
            ctx.store, ctx.settings, lost, runner=given.runner, actor=this_person(), reason=given.reason
        )
    _show(now, rows, given.output)
    return ExitCode.DONE


def _rows_of(lost: Lost) -> list[dict[str, object]]:
    stored = query_shapes.assignment_side(lost.stored)
    return [stored] if lost.place is None else [stored, query_shapes.found_side(lost.place)]


def _all(ctx: Context, given: Given) -> int:
    """Reconcile every query that a runner reports or its files show; one that cannot be is named."""
    if (given.cluster, given.checkpoint, given.runner, given.consent) != (None, None, None, None):
        raise UsageError("--cluster, --checkpoint, --runner and --consent are about one query: name it")
    runs = {name: sides for name in ctx.settings.queries if (sides := sides_of(ctx.store, name)) is not None}
    others = [name for name in ctx.settings.queries if name not in runs]
    lost = {name: each for name in others if (each := lost_of(ctx.store, name)) is not None}
    rows = [
        {"query": name, **row}
        for name, each in runs.items()
        for row in (query_shapes.assignment_side(each.stored), query_shapes.fact_side(each.runs))
    ] + [{"query": name, **row} for name, each in lost.items() for row in _rows_of(each)]
    found = [put_back_text(each.stored, each.runs) for each in runs.values()]
    found += [each.text for each in lost.values()]
    if not found:
        render.talk(f"the store is current for all {len(ctx.settings.queries)} queries: nothing done")
    elif not given.yes:
        known = len(runs) + sum(each.place is not None for each in lost.values())
        question = f"Save in the store what the runners report of {known} queries?"
        _confirm("\n".join(found), rows, question, columns=("query", *SIDE_COLUMNS))
    left = []
    for name in (*runs, *lost):
        try:
            with unknown_if_lost("the reconcile", hint=_AGAIN):
                now = _written(ctx, runs.get(name), lost.get(name), given.reason)
        except Refused as error:
            left.append(f"{error} ({error.hint})" if error.hint else str(error))
            continue
        rows.append({"query": name, **query_shapes.assignment_side(now), "side": "now"})
    for text in sorted(left):
        render.talk(text)
    if rows or given.output in {"json", "yaml"}:
        render.show(sorted(rows, key=lambda row: str(row["query"])), given.output, columns=("query", *SIDE_COLUMNS))
    return ExitCode.REFUSED if left else ExitCode.DONE


def _written(ctx: Context, sides: Sides | None, lost: Lost | None, reason: str) -> Assignment:
    if sides is not None:
        return write_down(ctx.store, ctx.settings, sides, actor=this_person(), reason=reason)
    assert lost is not None
    return reconcile_as_found(ctx.store, ctx.settings, lost, runner=None, actor=this_person(), reason=reason)


def _by_hand(ctx: Context, query: str, lost: Lost, given: Given) -> int:
    """Write down where a person says that a query last ran, once it is confirmed."""
    cluster, checkpoint = given.cluster, given.checkpoint
    if cluster is None or checkpoint is None or not _ABSOLUTE.match(checkpoint):
        raise UsageError("--cluster needs --checkpoint with an absolute path or a URI")
    rows = _rows_of(lost)
    if not given.yes:
        question = f"Did {query} last run on {cluster} from {checkpoint}, and is it stopped everywhere now?"
        _confirm(lost.text, rows, question)
    with unknown_if_lost("the reconcile", hint=_AGAIN):
        now = reconcile_by_hand(
            ctx.store,
            ctx.settings,
            lost,
            cluster=cluster,
            checkpoint=checkpoint,
            runner=given.runner,
            actor=this_person(),
            reason=given.reason,
        )
    _show(now, rows, given.output)
    return ExitCode.DONE


def _confirm(
    shown: str, rows: list[dict[str, object]], question: str, *, columns: Sequence[str] = SIDE_COLUMNS
) -> None:
    """Show what is known, then wait for a confirmation. Raises ``UsageError`` where no person can answer, and
    ``Refused``.
    """
    require_person(hint=shown)
    render.talk(shown + "\n\n" + tables.table(rows, columns) + "\n")
    confirm(question)


def _show(now: Assignment | None, before: list[dict[str, object]], output: str) -> None:
    rows = [*before, {**query_shapes.assignment_side(now), "side": "now"}]
    if before or output in {"json", "yaml"}:
        render.show(rows, output, columns=SIDE_COLUMNS)
