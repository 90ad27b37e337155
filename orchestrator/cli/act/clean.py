"""``clean``: what retention would take away, why the rest stays, and the checkpoints of it taken away now."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, confirm, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.decide.former_checkpoints import Disposition, JudgedFormer, KeepRules
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode, OutcomeUnknown, UnknownName, UsageError
from orchestrator.facts.former_checkpoints import judged_of, keep_of, request_cleaning
from state.model.maintenance import FormerCheckpoint
from state.settings.values import parse_duration
from state.store.controller_store import ControllerStore
from streaming.clocks import SystemClock

CHECKPOINT_COLUMNS = ("query", "checkpoint", "left_at", "bytes", "fate", "why")
_ROW_COLUMNS = ("what", "rows")
_COUNTED = 10_000
"""Rows of each kind that a dry run counts: on SQLite no other process writes at the same time."""
_LOOK_SECONDS = 0.2


@click.command()
@click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query)
@click.option("--older-than", metavar="AGE", help="Use this age instead of retention.checkpoints: 7d, 12h.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted and why the rest stays. Changes nothing.")
@click.option("--timeout", type=context.Seconds(1, 86_400), default=120.0, show_default=True, metavar="SECONDS",
              help="How long to wait for the runners.")  # fmt: skip
@context.reason
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def clean(
    ctx: Context,
    queries: tuple[str, ...],
    older_than: str | None,
    dry_run: bool,
    timeout: float,
    reason: str,
    yes: bool,
    output: str,
) -> int:
    """Delete old checkpoints that moved queries no longer use, as retention does every hour.

    State and old log entries are deleted. The last batch and the fence stay, a few small files: they prevent a start
    from there even if an older backup of the store is restored. Never deleted: the checkpoint in use, the newest
    retention.keep_checkpoints of a query, and any checkpoint of a query that is being moved, is held, or is not seen
    running. A runner does the work; if it cannot, it says why (exit 1). Without QUERY, --dry-run also counts the rows
    that the controller will delete from the store.

    \b
    Examples:
      tideover clean --dry-run
      tideover clean revenue --dry-run --older-than 7d
      tideover clean revenue --older-than 7d --reason "the disk is full"
    """
    store, settings = ctx.store, ctx.settings
    keep = _keep(ctx, older_than)
    names = _names(ctx, queries)
    judged = [each for name in names for each in judged_of(store, settings, name, keep, by_hand=True)]
    if dry_run:
        rows = None
        if not queries:
            before = store.now() - settings.retention.history
            rows = store.prunable(before, keep=settings.retention.operations, limit=_COUNTED)._asdict()
        _show(judged, rows, output, store.now())
        return ExitCode.DONE
    going = [each.former for each in judged if each.fate is Disposition.GOES]
    if not going:
        render.talk("nothing to clean: nothing done")
        _show(judged, None, output, store.now())
        return ExitCode.DONE
    if not yes:
        require_person(hint="to see what would be deleted: tideover clean --dry-run")
        rows_of = [_row(each, store.now()) for each in judged if each.fate is Disposition.GOES]
        render.talk(tables.table(rows_of, CHECKPOINT_COLUMNS))
        confirm(f"Clean {len(going)} checkpoint{'s' if len(going) != 1 else ''}?")
    with unknown_if_lost("the request to the runners", hint="run the command again: it is safe to repeat"):
        given = []
        for name in names:
            agreed = [former.checkpoint for former in going if former.query == name]
            given += request_cleaning(store, settings, name, keep, actor=this_person(), reason=reason, only=agreed)
        _await(store, given, timeout)
        after = [each for name in names for each in judged_of(store, settings, name, keep)]
    requested = {(former.query, former.checkpoint) for former in given}
    shown = [each for each in after if (each.former.query, each.former.checkpoint) in requested]
    _show(shown, None, output, store.now())
    if len(given) < len(going):
        render.talk(
            "some checkpoints were kept because their query moved in the meantime; see tideover clean --dry-run"
        )
    return ExitCode.DONE if len(given) == len(going) and all(_is_clean(each) for each in shown) else ExitCode.REFUSED


def _keep(ctx: Context, older_than: str | None) -> KeepRules:
    keep = keep_of(ctx.settings.retention)
    if older_than is None:
        return keep
    try:
        return KeepRules(age=parse_duration(older_than), newest=keep.newest)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from error


def _names(ctx: Context, queries: Sequence[str]) -> list[str]:
    """The queries that are meant; all of which the store knows a former checkpoint, where none is named."""
    known = sorted({former.query for former in ctx.store.formers()})
    for name in queries:
        if name not in known and name not in ctx.settings.queries:
            raise UnknownName(f"query {name!r} is not declared, and the store knows no old checkpoint of it")
    return list(dict.fromkeys(queries)) or known


def _await(store: ControllerStore, given: Sequence[FormerCheckpoint], seconds: float) -> None:
    """Until each runner has answered. Raises ``OutcomeUnknown`` when the time is up."""
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    waiting = {(each.query, each.checkpoint) for each in given}
    while waiting:
        waiting &= {(each.query, each.checkpoint) for each in store.formers() if each.is_requested}
        if waiting and clock.monotonic() >= deadline:
            raise OutcomeUnknown(
                f"{len(waiting)} of {len(given)} checkpoints are not cleaned after {seconds:g} s; the runners continue",
                hint="tideover clean --dry-run shows their progress",
            )
        if waiting:
            clock.wait(_LOOK_SECONDS)


def _is_clean(judged: JudgedFormer) -> bool:
    return judged.fate is Disposition.CLEANED


def _row(judged: JudgedFormer, now: datetime) -> dict[str, object]:
    former = judged.former
    return {
        "query": former.query,
        "checkpoint": former.checkpoint,
        "epoch": former.placed_epoch,
        "left_epoch": former.left_epoch,
        "left_at": iso(former.left_at),
        "age_seconds": (now - former.left_at) / timedelta(seconds=1),
        "operation": former.operation,
        "files": former.files,
        "bytes": former.bytes,
        "cleaned_at": iso(former.cleaned_at),
        "fate": judged.fate.value,
        "why": judged.why,
    }


def _show(judged: Sequence[JudgedFormer], rows: dict[str, int] | None, output: str, now: datetime) -> None:
    checkpoints = [_row(each, now) for each in judged]
    if output in {"json", "yaml"}:
        render.document({"checkpoints": checkpoints, "rows": rows}, output)
        return
    render.show(checkpoints, output, columns=CHECKPOINT_COLUMNS)
    if rows is not None and output in tables.PEOPLE:
        counted = [{"what": name, "rows": f"{count} or more" if count >= _COUNTED else count}
                   for name, count in rows.items() if count]  # fmt: skip
        render.say(
            "\nRows that the controller will delete from the store:"
            if counted
            else "\nThe controller has no rows to delete from the store."
        )
        if counted:
            render.say(tables.table(counted, _ROW_COLUMNS))
