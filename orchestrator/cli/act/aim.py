"""What a move is asked for: queries, clusters and consents, and the plan of each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context
from orchestrator.clock import SystemClock
from orchestrator.errors import UsageError
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import plan_query
from orchestrator.facts.runner_reports import run_of
from orchestrator.operation.open_operations import open_operation
from orchestrator.operation.requests import default_target
from state.messages import Process
from state.model.entities import OperationKind

CONSENTS = {
    "unfenced": "start the query although the old run may still be running and writing to the sink",
    "repeats": "some records may be read twice",
    "loss": "records that never reached the standby are lost to this query",
    "gap": "records that the standby no longer holds are skipped",
    "fresh": "the state is lost, or batches that the sink drops because it knows their ids",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """The common flags of a move, as given."""

    queries: tuple[str, ...]
    to: str | None
    expect_active: str | None
    reason: str
    consents: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """One query's move, worked out once: what is shown, asked and requested is the same."""

    query: str
    active: str | None
    """The cluster that the query is on, or is on its way from; None when it never ran."""
    target: str
    run: Process | None
    """The run that has to be proven stopped: a consent ``unfenced`` is given for this one."""


def which(command: context.Command) -> context.Command:
    """The queries or all, the target, what is believed now, and consents."""
    for decorate in (
        click.option("--consent", "consents", type=click.Choice(list(CONSENTS)), multiple=True,
                     help="Accept a risk that a gate names. May be repeated."),
        click.option("--expect-active", metavar="CLUSTER", shell_complete=context.complete_cluster,
                     help="Refuse unless the query is on CLUSTER now. With --all: move only those on CLUSTER."),
        click.option("--to", metavar="CLUSTER", shell_complete=context.complete_cluster,
                     help="Target cluster. Default: the next in the query's clusters."),
        click.option("--all", "every", is_flag=True, help="Every declared query."),
        click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query),
    ):  # fmt: skip
        command = decorate(command)
    return command


def flags_of(
    ctx: Context,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    reason: str,
) -> Flags:
    context.check_some_or_all(ctx, queries, every=every)
    for cluster in (to, expect_active):
        if cluster is not None:
            ctx.known_cluster(cluster)
    names = tuple(dict.fromkeys(queries)) or tuple(ctx.settings.queries)
    if not names:
        raise UsageError("no query is declared", hint="add it under queries in the configuration")
    for name in names if to is not None else ():
        if to not in ctx.query(name).clusters:
            allowed = ", ".join(ctx.query(name).clusters)
            raise UsageError(f"{name} may not run on {to}", hint=f"queries.{name}.clusters allows {allowed}")
    return Flags(queries=names, to=to, expect_active=expect_active, reason=reason, consents=consents)


def aims_of(ctx: Context, flags: Flags, *, every: bool) -> list[Aim]:
    """What is to be moved, from where and to where; with ``--all`` only what is where ``--expect-active`` says."""
    aims = [_aim(ctx, name, flags.to) for name in flags.queries]
    if not every or flags.expect_active is None:
        return aims
    for aim in aims:
        if aim.active != flags.expect_active:
            where = f"is on {aim.active}, not on {flags.expect_active}" if aim.active else "has never run"
            render.talk(f"{aim.query} {where}: not moved")
    return [aim for aim in aims if aim.active == flags.expect_active]


def _aim(ctx: Context, name: str, to: str | None) -> Aim:
    """Where to: as typed, else where an open operation goes already, else the next of the query's clusters."""
    query = ctx.query(name)
    under_way = open_operation(ctx.store, name)
    run = run_of(ctx.store, name)
    if under_way is not None:
        return Aim(query=name, active=under_way.source, target=to or under_way.target, run=run)
    assignment = ctx.store.assignment(name)
    active = assignment.cluster if assignment else None
    return Aim(query=name, active=active, target=to or default_target(query, active or query.clusters[0]), run=run)


def plans_of(ctx: Context, aims: Iterable[Aim], flags: Flags) -> Iterator[dict[str, object]]:
    gatherer = FactGatherer(store=ctx.store, settings=ctx.settings, logs=ctx.log, clock=SystemClock())
    for aim in aims:
        yield plan_query(
            gatherer, OperationKind.FAILOVER, aim.query, aim.target,
            consents=frozenset(flags.consents), expect_active=flags.expect_active,
        )  # fmt: skip
