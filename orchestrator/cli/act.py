"""Verbs that move queries, and their plan: ``plan failover`` and ``failover``."""

import getpass
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from orchestrator.cli import options, render, shapes
from orchestrator.cli.progress import Progress
from orchestrator.cli.world import World, pass_world
from orchestrator.clock import SystemClock
from orchestrator.errors import ExitCode, OutcomeUnknown, Refused, UsageError
from orchestrator.lease import Lead
from orchestrator.places import Places
from orchestrator.planning import plan_query
from orchestrator.process import this_process
from orchestrator.requests import Wish, ask, default_target, standing_of
from orchestrator.work import Work, outcome_of
from state.model import Operation, OperationKind, Request

CONSENTS = {
    "unfenced": "start although nothing proves that the old run has stopped: it may still write",
    "repeats": "records may be read twice",
    "loss": "records that the standby lacks are left behind",
    "gap": "records that the standby has deleted already are skipped",
    "fresh": "the state, or batches that the sink drops by id, are lost",
}

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """The common flags of a move, as given."""

    queries: tuple[str, ...]
    to: str | None
    expect_active: str | None
    reason: str
    consents: tuple[str, ...]


def _which(command: Command) -> Command:
    """The query or all, the target, what is believed now, and consents."""
    for decorate in (
        click.option("--consent", "consents", type=click.Choice(list(CONSENTS)), multiple=True,
                     help="Accept a risk that a gate names; may be repeated."),
        click.option("--expect-active", metavar="CLUSTER", help="Act only on queries that are on CLUSTER now."),
        click.option("--to", metavar="CLUSTER", help="Where to. Default: the next in the query's clusters."),
        click.option("--all", "every", is_flag=True, help="Every declared query."),
        click.argument("query", required=False),
    ):  # fmt: skip
        command = decorate(command)
    return command


@click.group()
def plan() -> None:
    """Show what a move would do, gates included. Changes nothing."""


@plan.command("failover")
@_which
@options.output
@pass_world
def plan_failover(
    world: World,
    query: str | None,
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    output: str,
) -> int:
    """Show what failover would do: per partition where to resume, by which method, and at what cost.

    \b
    Examples:
      tideover plan failover revenue
      tideover plan failover --all --to west -o json
    """
    flags = _flags(world, query, every, to, expect_active, consents, "")
    plans = [_plan(world, name, flags) for name in flags.queries]
    _print_plans(plans, output, many=every)
    return ExitCode.REFUSED if any(value["refused"] for value in plans) else ExitCode.DONE


@click.command()
@_which
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the history.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the operation to its end.")
@click.option("--timeout", type=click.FloatRange(1, 86_400), default=120.0, show_default=True, metavar="SECONDS",
              help="How long to wait; the operation stays open after that.")  # fmt: skip
@options.output
@pass_world
def failover(
    world: World,
    query: str | None,
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    reason: str,
    yes: bool,
    wait: bool,
    timeout: float,
    output: str,
) -> int:
    """Move queries to their standby, with their state, to the place where they stood.

    Already there: exit 0, nothing done. An open operation of the query is joined. Without a terminal,
    --yes and one of --to and --expect-active are needed.

    \b
    Examples:
      tideover failover revenue
      tideover failover --all --to west --yes --reason "east is down"
      tideover failover revenue --expect-active east --yes -o json
    """
    flags = _flags(world, query, every, to, expect_active, consents, reason)
    _check_unattended(flags, yes=yes)
    moving = tuple(name for name in flags.queries if not _is_there(world, name, flags.to))
    for name in flags.queries:
        if name not in moving:
            render.talk(f"{name} is already there: nothing done")
    if not moving:
        if output in {"json", "yaml"}:
            render.document([], output)
        return ExitCode.DONE
    if sys.stdin.isatty() and not yes:
        _ask_person(world, moving, flags)
    return _move(world, moving, flags, wait=wait, timeout=timeout, output=output, many=every)


def _flags(
    world: World,
    query: str | None,
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    reason: str,
) -> Flags:
    if (query is None) is not every:
        raise UsageError("name one query, or say --all")
    if query is not None:
        world.query(query)
    for cluster in (to, expect_active):
        if cluster is not None:
            world.known_cluster(cluster)
    names = tuple(world.settings.queries) if query is None else (query,)
    if not names:
        raise UsageError("no query is declared")
    return Flags(queries=names, to=to, expect_active=expect_active, reason=reason, consents=consents)


def _check_unattended(flags: Flags, *, yes: bool) -> None:
    if sys.stdin.isatty():
        return
    if not yes or (flags.to is None and flags.expect_active is None):
        raise UsageError(
            "without a terminal a move needs --yes and one of --to and --expect-active",
            hint="so that a script says what it believes: tideover failover QUERY --to CLUSTER --yes",
        )


def _is_there(world: World, name: str, to: str | None) -> bool:
    assignment = world.store.assignment(name)
    if assignment is None or to is None or assignment.cluster != to:
        return False
    return not world.store.operations(query=name, only_open=True, limit=1)


def _target(world: World, name: str, flags: Flags) -> str:
    query, assignment = world.query(name), world.store.assignment(name)
    return flags.to or default_target(query, assignment.cluster if assignment else query.clusters[0])


def _plan(world: World, name: str, flags: Flags) -> dict[str, object]:
    target = _target(world, name, flags)
    places = Places(store=world.store, settings=world.settings, logs=world.log, clock=SystemClock())
    return plan_query(
        places, world.store, OperationKind.FAILOVER, name, target,
        consents=frozenset(flags.consents), expect_active=flags.expect_active,
    )  # fmt: skip


def _print_plans(plans: list[dict[str, object]], output: str, *, many: bool) -> None:
    if output in {"json", "yaml"}:
        render.document(plans if many else plans[0], output)
    elif output == "tsv":
        found = [{**row, "query": value["query"]} for value in plans for row in render.rows_of(value)]
        render.show(found, output, columns=("query", *render.PARTITION_COLUMNS))
    else:
        click.echo("\n\n".join(render.plan(value) for value in plans))


def _ask_person(world: World, moving: tuple[str, ...], flags: Flags) -> None:
    """Show the plan, then ask; a consent is typed, so that it is not given in passing."""
    for name in moving:
        render.talk(render.plan(_plan(world, name, flags)) + "\n")
    if not click.confirm(f"Move {', '.join(moving)}?", err=True):
        raise click.Abort
    for consent in flags.consents:
        word = moving[0] if len(moving) == 1 else "all"
        typed = click.prompt(f"{consent}: {CONSENTS[consent]}. Type {word!r} to accept", err=True)
        if typed != word:
            raise Refused(f"{consent} was not consented to", hint=f"{word!r} was not typed")


def _move(
    world: World, moving: tuple[str, ...], flags: Flags, *, wait: bool, timeout: float, output: str, many: bool
) -> int:
    clock, store = SystemClock(), world.store
    actor = f"{_user()}@{socket.gethostname()}"
    lead = Lead(store, clock, this_process())
    if not wait and lead.take():
        lead.give_up()
        raise UsageError("nobody leads, so --no-wait would leave the request lying", hint="leave --no-wait out")
    wish = Wish(
        kind=OperationKind.FAILOVER,
        targets={name: _target(world, name, flags) for name in moving},
        expect_active=flags.expect_active,
        actor=actor,
        reason=flags.reason,
        consents=flags.consents,
    )
    requests = ask(store, wish, datetime.now(UTC))
    if wait:
        progress = Progress(store, requests)
        work = Work(
            store=store,
            settings=world.settings,
            logs=world.log,
            clock=clock,
            lead=lead,
            actor=actor,
            watch=progress.say,
        )
        work.see_through(requests, seconds=timeout)
        for operation, error in work.failures.items():
            render.talk(f"operation {operation} stays open: {error}" + (f" ({error.hint})" if error.hint else ""))
    return _answer(world, standing_of(store, requests), output, many=many)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def _answer(world: World, requests: tuple[Request, ...], output: str, *, many: bool) -> int:
    """Print the operations and give the worst of the exit codes."""
    found = [(request, outcome_of(world.store, request)) for request in requests]
    values = [
        shapes.operation_json(operation, world.store.steps(operation.id))
        for _, operation in found
        if operation is not None
    ]
    codes = [_code(world, request, operation) for request, operation in found]
    if output in {"json", "yaml"} and values:
        render.document(values if many else values[0], output)
    elif values:
        columns = ("id", "query", "from", "to", "phase", "outcome", "sentence")
        render.show(values, output, columns=columns)
    if not values:
        _raise_first(found, codes)
    for request, _ in found:
        if request.refused is not None:
            render.talk(f"{request.query}: refused: {request.refused}")
    return max(codes, key=(ExitCode.DONE, ExitCode.REFUSED, ExitCode.UNKNOWN, ExitCode.FAILED).index)


def _code(world: World, request: Request, operation: Operation | None) -> ExitCode:
    if request.refused is not None:
        there = request.refused.startswith("not-already-there")
        return ExitCode.DONE if there else ExitCode.REFUSED
    if operation is None or operation.outcome is None:
        return ExitCode.UNKNOWN
    return {"done": ExitCode.DONE, "refused": ExitCode.REFUSED}.get(operation.outcome, ExitCode.FAILED)


def _raise_first(found: list[tuple[Request, Operation | None]], codes: list[ExitCode]) -> None:
    """Nothing became an operation: the one answer is an error, in whatever form was asked for."""
    for (request, _), code in zip(found, codes, strict=True):
        if code is ExitCode.REFUSED:
            raise Refused(f"{request.query}: {request.refused}", hint="tideover plan failover shows every gate")
        if code is ExitCode.UNKNOWN:
            raise OutcomeUnknown(
                f"request {request.id} was not taken in time", hint="the same verb again joins what became of it"
            )
