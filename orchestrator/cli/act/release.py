"""``release``: a query leaves Tideover, and plain Spark continues it."""

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, confirm, pass_context, require_person, this_person
from orchestrator.errors import ExitCode, Refused, UsageError
from orchestrator.facts.current import latest_fact, open_operation
from state.messages import Process
from state.model.entities import QUIET, Assignment, Event
from streaming.process import Identity, boot_id, host_name, is_gone
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.external.application_commands import ApplicationCommands
from streaming.spark.external.start_notes import StartNotes
from streaming.spark.handback import Handback, hand_back, plan_handback

_COLUMNS = ("query", "cluster", "checkpoint", "rewritten", "released")


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@click.option("--dry-run", is_flag=True, help="Show what would be changed. Changes nothing.")
@context.reason
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def release(ctx: Context, query: str, dry_run: bool, reason: str, yes: bool, output: str) -> int:
    """Hand a query back to plain Spark, in place: its checkpoint, state, query id and batch ids stay.

    A query that was moved has offsets with the mark of a cluster, which Spark refuses. They are rewritten as Spark
    writes them, for the cluster that the query reads now. The old text is kept beside the checkpoint. It can be broken
    off and done again. Name that cluster in the application's code before you start it without Tideover. Refused
    (exit 1) while a driver of the query may live, or an operation of it is open. An application with commands of yours
    must have ended by its status. Only for checkpoints on a local or
    mounted disk.

    \b
    Examples:
      tideover release archive --dry-run
      tideover release archive --reason "the new cluster is final"
    """
    declared, files = ctx.query(query), LocalFiles()
    row = _row(ctx, query)
    plan = plan_handback(files, row)
    if not dry_run:
        _check_idle(ctx, row, declared.runners)
        if not (yes or plan.is_done):
            require_person(hint=f"to see what would be changed: tideover release {query} --dry-run")
            confirm(f"Rewrite {len(plan.new)} entries of {row.checkpoint} for plain Spark?")
            plan = _plan_again(ctx, row)
        hand_back(files, plan, lambda: _begin(ctx, row, plan, reason))
    _show(query, plan, output, released=not dry_run or plan.is_done)
    return ExitCode.DONE


def _row(ctx: Context, query: str) -> Assignment:
    row = ctx.store.assignment(query)
    if row is None:
        raise UsageError(f"{query} has never run under Tideover", hint="its checkpoint is Spark's own already")
    if "://" in row.checkpoint:
        raise UsageError(f"{row.checkpoint} is not on a local or mounted disk", hint="mount it where you type this")
    return row


def _plan_again(ctx: Context, row: Assignment) -> Handback:
    """The plan behind an answer that may have taken an hour: a run that came and went in between has new entries."""
    if ctx.store.assignment(row.query) != row:
        raise Refused(f"{row.query} was moved since the question", hint="run the command again")
    return plan_handback(LocalFiles(), row)


def _begin(ctx: Context, row: Assignment, plan: Handback, reason: str) -> None:
    """No start is admitted any more: what was admitted before is known to the store, and refuses the release."""
    if ctx.store.assignment(row.query) != row:
        raise Refused(f"{row.query} was moved at the same time", hint="run the command again")
    _check_idle(ctx, row, ctx.query(row.query).runners)
    if plan_handback(LocalFiles(), row).new != plan.new:
        raise Refused(f"{row.checkpoint} has changed since it was read", hint="run the command again")
    ctx.store.note(_event(ctx, row, plan, reason))


def _check_idle(ctx: Context, row: Assignment, runners: tuple[str, ...]) -> None:
    """Raises ``Refused`` while anything of the query may run."""
    opened = open_operation(ctx.store, row.query)
    if opened is not None:
        raise Refused(f"operation {opened.id} of {row.query} is open", hint=f"tideover show-op {opened.id}")
    if any(request.query == row.query for request in ctx.store.open_requests()):
        raise Refused(f"a request of {row.query} has not begun yet", hint="wait until it has ended or expired")
    here = Identity(host=host_name(), boot_id=boot_id(), pid=0, pid_started=0)
    for each in ctx.store.runners():
        if each.runner in runners and not is_gone(each, here):
            raise Refused(
                f"{each.runner} may still run as pid {each.pid} on {each.host}", hint="end it, and run this again there"
            )
    fact = latest_fact(ctx.store, row.query)
    if fact is not None and fact.state not in QUIET and not is_gone(Process.of_query(fact), here):
        raise Refused(
            f"nothing proves that the run of {row.query} by pid {fact.pid} on {fact.host} has ended",
            hint=f"run this again on {fact.host}",
        )
    if ctx.query(row.query).application is not None:
        _check_ended(ctx, row)


def _check_ended(ctx: Context, row: Assignment) -> None:
    """The end of a runner proves nothing of an application that it started. Raises ``Refused``."""
    status = ApplicationCommands.of(ctx.settings, row, ctx.base).status()
    owed = StartNotes(LocalFiles(), row.checkpoint, ctx.store.now).owed()
    why = "it runs, as its status says" if status.runs else status.text or owed
    if why:
        raise Refused(
            f"nothing proves that the application of {row.query} has ended: {why}", hint="end it, and run this again"
        )


def _event(ctx: Context, row: Assignment, plan: Handback, reason: str) -> Event:
    text = f"{row.query} is handed back to plain Spark on {row.cluster}" + (f": {reason}" if reason else "")
    return Event(
        sequence=None, at=ctx.store.now(), kind="release", query=row.query, operation=None, epoch=row.epoch,
        actor=this_person(), text=text,
        detail={"checkpoint": row.checkpoint, "entries": sorted(plan.new), "cluster": row.cluster, "reason": reason},
    )  # fmt: skip


def _show(query: str, plan: Handback, output: str, *, released: bool) -> None:
    row = {
        "query": query, "cluster": plan.cluster, "checkpoint": plan.checkpoint, "rewritten": sorted(plan.new),
        "released": released,
    }  # fmt: skip
    if output not in tables.PEOPLE | {"tsv"}:
        render.document(row, output)
        return
    render.show([row | {"rewritten": len(plan.new)}], output, columns=_COLUMNS)
    render.talk(
        f"Its offsets are of {plan.cluster}: name that cluster in the application's code, remove {query} from the "
        f"configuration, then tideover forget {query}"
    )
