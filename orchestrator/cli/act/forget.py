"""``forget``: delete what the store remembers of a query that was taken out of service.

What goes is the store's memory of it: assignment, operations, positions, timeline. Its history expires by age as ever.
Its checkpoints and what it wrote stay where they are: they are the owner's.
"""

from dataclasses import dataclass
from datetime import timedelta

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, confirm, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode, Refused, UnknownName
from orchestrator.facts.current import latest_fact, open_operation
from state.model.entities import QUIET, Event, QueryFact
from state.model.maintenance import RememberedRows
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore

_COLUMNS = ("what", "rows")
ALIVE = timedelta(minutes=1)
"""A runner that beat or reported the query more recently than this still runs it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A query that may be forgotten."""

    query: str
    rows: RememberedRows
    checkpoint: str | None
    """The one it ran from last; its folder holds the others, too."""
    fact: QueryFact | None
    """What a runner reported last."""

    @property
    def is_silent(self) -> bool:
        """Whether no runner said that it stopped the query: it may still run, on a host that is out of reach."""
        return self.fact is not None and self.fact.state not in QUIET


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted. Changes nothing.")
@context.reason
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def forget(ctx: Context, query: str, dry_run: bool, reason: str, yes: bool, output: str) -> int:
    """Delete what the store knows of a query that is no longer in the configuration.

    Deletes its assignment, operations, positions and timeline; its history expires by age as usual. Its checkpoints
    and what it wrote are not touched. If it is declared again later, it starts like a new query, from what its
    checkpoint folder holds. Refused (exit 1) while the query is declared, a runner runs it, or an operation or
    request of it is open.

    \b
    Examples:
      tideover forget revenue --dry-run
      tideover forget revenue --reason "replaced by revenue2"
    """
    leftover = leftover_of(ctx.store, ctx.settings, query)
    if dry_run:
        _show(leftover, output, forgotten=False)
        return ExitCode.DONE
    if not yes:
        require_person(hint=f"to see what would be deleted: tideover forget {query} --dry-run")
        rows = [{"what": name, "rows": count} for name, count in leftover.rows._asdict().items() if count]
        render.talk(tables.table(rows, _COLUMNS) + "\n")
        render.talk(_warning(leftover))
        confirm(f"Delete what the store knows of {query}?")
    with unknown_if_lost(f"the deletion of {query}", hint="run the command again to delete what is left"):
        forget_query(ctx.store, leftover, actor=this_person(), reason=reason)
    if output in tables.PEOPLE:
        render.talk(_left(leftover))
    _show(leftover, output, forgotten=True)
    return ExitCode.DONE


def _warning(leftover: Leftover) -> str:
    fact = leftover.fact
    if fact is None or not leftover.is_silent:
        return _left(leftover)
    return (
        f"Runner {fact.runner} on {fact.host} reported {fact.state.value} at {iso(fact.reported_at)} and has been "
        f"silent since: make sure that its process has ended.\n{_left(leftover)}"
    )


def _left(leftover: Leftover) -> str:
    if leftover.checkpoint is None:
        return "The store knows no checkpoint of it."
    return f"The checkpoint {leftover.checkpoint} is kept: delete it and those beside it if you no longer need them."


def _show(leftover: Leftover, output: str, *, forgotten: bool) -> None:
    if output in {"json", "yaml"}:
        value = {
            "query": leftover.query,
            "forgotten": forgotten,
            "rows": leftover.rows._asdict(),
            "checkpoint": leftover.checkpoint,
        }
        render.document(value, output)
        return
    rows = [{"what": name, "rows": count} for name, count in leftover.rows._asdict().items()]
    render.show(rows, output, columns=_COLUMNS)


def leftover_of(store: ControllerStore, settings: Tideover, query: str) -> Leftover:
    """What is remembered of a query. Raises ``Refused`` while it is in use, and ``UnknownName`` when nothing is."""
    if query in settings.queries:
        raise Refused(
            f"{query} is still declared",
            hint="remove it from the configuration, restart its runners and the controllers, then run the "
            "command again",
        )
    opened = open_operation(store, query)
    if opened is not None:
        raise Refused(
            f"operation {opened.id} of {query} is open ({opened.phase.value})",
            hint="declare the query again until it is closed: a controller finishes it, or a failover cancels it",
        )
    waiting = next((request for request in store.open_requests() if request.query == query), None)
    if waiting is not None:
        raise Refused(f"request {waiting.id} of {query} has not begun yet", hint="wait until it has ended or expired")
    fact = latest_fact(store, query)
    runner = _running(store, fact)
    if runner is not None:
        raise Refused(
            f"runner {runner} runs {query}, or did a minute ago",
            hint=f"restart runner {runner} with the configuration that does not declare {query}",
        )
    rows, assignment = store.remembered(query), store.assignment(query)
    if not sum(rows):
        raise UnknownName(f"the store knows nothing of query {query!r}", hint="tideover list shows what it knows")
    return Leftover(query=query, rows=rows, checkpoint=assignment.checkpoint if assignment else None, fact=fact)


def forget_query(store: ControllerStore, leftover: Leftover, *, actor: str, reason: str) -> RememberedRows:
    """Delete it; what went. Raises ``Conflict`` when a runner or a person used the query in between."""
    query, fact = leftover.query, leftover.fact
    event = Event(
        sequence=None,
        at=store.now(),
        kind="forget",
        query=query,
        operation=None,
        epoch=fact.epoch if fact else None,
        actor=actor,
        text=f"{query} is forgotten" + (f": {reason}" if reason else ""),
        detail={"reason": reason, "checkpoint": leftover.checkpoint, "rows": leftover.rows._asdict()},
    )
    return store.forget(query, reported_at=fact.reported_at if fact else None, event=event)


def _running(store: RunnerStore, fact: QueryFact | None) -> str | None:
    """The runner that may host the query right now."""
    if fact is None or fact.state in QUIET:
        return None
    now = store.now()
    beats = any(each.instance == fact.instance and abs(now - each.seen_at) < ALIVE for each in store.runners())
    return fact.runner if beats or abs(now - fact.reported_at) < ALIVE else None
