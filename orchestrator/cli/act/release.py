"""``release``: a query leaves Tideover, and plain Spark continues it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, confirm, pass_context, require_person, this_person
from orchestrator.errors import ExitCode, Refused, UsageError
from orchestrator.facts.current import latest_fact, open_operation
from state.messages import Process
from state.model.entities import QUIET, Assignment, Event
from streaming.process import Identity, boot_id, host_name, is_gone
from streaming.spark.checkpoint.files import CheckpointFiles
from streaming.spark.external.application_commands import ApplicationCommands
from streaming.spark.external.start_notes import StartNotes, notes_checkpoint
from streaming.spark.handback import Handback, hand_back, plan_handback

if TYPE_CHECKING:
    from streaming.spark.external.offline_files import OfflineFiles

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
    writes them, for the cluster that the query reads now. The old text is kept beside the checkpoint. You can interrupt
    the command and repeat it. Name that cluster in the application's code before you start it without Tideover. Refused
    (exit 1) while a driver of the query may live, or an operation of it is open. An application with commands of yours
    must have ended by its status. Where the checkpoint is not on a local or mounted disk, a small Spark is started with
    the group spark of the configuration. Refused on Azure Data Lake, where no file is replaced in one step.

    \b
    Examples:
      tideover release archive --dry-run
      tideover release archive --reason "the new cluster is final"
    """
    ctx.query(query)
    row = _row(ctx, query)
    with _leaving(ctx, row) as leaving:
        plan = plan_handback(leaving.files, row)
        if not dry_run:
            leaving.require_idle()
            if not (yes or plan.is_done):
                require_person(hint=f"to see what would be changed: tideover release {query} --dry-run")
                confirm(f"Rewrite {len(plan.new)} entries of {row.checkpoint} for plain Spark?")
                plan = leaving.plan_again()
            if not plan.is_done:
                leaving.opened.require_safe()
            hand_back(leaving.files, plan, lambda: leaving.begin(plan, reason))
    _show(query, plan, output, released=not dry_run or plan.is_done)
    return ExitCode.DONE


def _row(ctx: Context, query: str) -> Assignment:
    row = ctx.store.assignment(query)
    if row is None:
        raise UsageError(f"{query} has never run under Tideover", hint="its checkpoint is Spark's own already")
    return row


@contextmanager
def _leaving(ctx: Context, row: Assignment) -> Iterator["_Leaving"]:
    from streaming.spark.external.offline_files import opened_files  # imported when needed: it loads Spark

    notes = notes_checkpoint(ctx.settings, row, ctx.store, ctx.base)
    with opened_files(ctx.settings, row.query, [row.checkpoint, notes], ctx.base) as opened:
        yield _Leaving(ctx, row, opened, notes)


@dataclass(frozen=True)
class _Leaving:
    """A query, and the way to its files."""

    ctx: Context
    row: Assignment
    opened: "OfflineFiles"
    notes: str
    """The checkpoint beside which the starts of its application are noted: that of the application's first query."""

    @property
    def files(self) -> CheckpointFiles:
        return self.opened.files

    def plan_again(self) -> Handback:
        """The plan behind an answer that may have taken an hour: a run in between has new entries."""
        row = self.row
        if self.ctx.store.assignment(row.query) != row:
            raise Refused(f"{row.query} was moved since the question", hint="run the command again")
        return plan_handback(self.files, row)

    def begin(self, plan: Handback, reason: str) -> None:
        """No start is admitted any more: what was admitted before is known to the store, and refuses the release."""
        row = self.row
        if self.ctx.store.assignment(row.query) != row:
            raise Refused(f"{row.query} was moved at the same time", hint="run the command again")
        self.require_idle()
        if plan_handback(self.files, row).new != plan.new:
            raise Refused(f"{row.checkpoint} has changed since it was read", hint="run the command again")
        self.ctx.store.note(_event(self.ctx, row, plan, reason))

    def require_idle(self) -> None:
        """Raises ``Refused`` while anything of the query may run."""
        store, query = self.ctx.store, self.row.query
        declared = self.ctx.query(query)
        opened = open_operation(store, query)
        if opened is not None:
            raise Refused(f"operation {opened.id} of {query} is open", hint=f"tideover show-op {opened.id}")
        if any(request.query == query for request in store.open_requests()):
            raise Refused(f"a request of {query} has not begun yet", hint="wait until it has ended or expired")
        here = Identity(host=host_name(), boot_id=boot_id(), pid=0, pid_started=0)
        for each in store.runners():
            if each.runner in declared.runners and not is_gone(each, here):
                raise Refused(
                    f"{each.runner} may still run as pid {each.pid} on {each.host}",
                    hint="end it, and run this again there",
                )
        fact = latest_fact(store, query)
        if fact is not None and fact.state not in QUIET and not is_gone(Process.of_query(fact), here):
            raise Refused(
                f"nothing proves that the run of {query} by pid {fact.pid} on {fact.host} has ended",
                hint=f"run this again on {fact.host}",
            )
        if declared.application is not None:
            self._require_ended()

    def _require_ended(self) -> None:
        """The end of a runner proves nothing of an application that it started. Raises ``Refused``."""
        row = self.row
        status = ApplicationCommands.of(self.ctx.settings, row, self.ctx.base).status()
        owed = StartNotes(self.files, self.notes, self.ctx.store.now).owed()
        why = "it runs, as its status says" if status.runs else status.text or owed
        if why:
            raise Refused(
                f"nothing proves that the application of {row.query} has ended: {why}",
                hint="end it, and run this again",
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
