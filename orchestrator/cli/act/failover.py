"""``failover``: move queries to their standby."""

from collections.abc import Sequence
from datetime import timedelta

import click

from orchestrator.cli import context, render
from orchestrator.cli.act.aim import CONSENTS, Aim, Flags, aims_of, flags_of, plans_of, which
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.progress import Progress, nothing_done, result_of
from orchestrator.cli.prompts import ask_to_type, ask_yes, is_attended, this_person
from orchestrator.clock import SystemClock
from orchestrator.decide.gates.gate import UNFENCED, run_name
from orchestrator.decide.operation.phases import BEFORE_COMMIT
from orchestrator.errors import OutcomeUnknown, UsageError
from orchestrator.lease import Leadership, is_led, this_process
from orchestrator.operation.open_operations import open_operation
from orchestrator.operation.requests import RequestSpec, standing_of, submit
from orchestrator.operation.wait import RequestWait
from state.errors import StoreError
from state.model.entities import OperationKind, Request

_GO_ON = "tideover list shows it; run the same command again to continue it"


@click.command()
@which
@context.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the operation has ended.")
@click.option("--timeout", type=context.Seconds(1, 86_400), default=120.0, show_default=True, metavar="SECONDS",
              help="How long to wait. What has begun by then continues; nothing begins later.")  # fmt: skip
@context.output
@pass_context
def failover(
    ctx: Context,
    queries: tuple[str, ...],
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
    """Move queries to their standby cluster. They keep their state and resume where they stopped.

    Already there: exit 0, nothing done. If an operation of the query is open, the command joins it. If the query has
    moved since the plan was shown, the move is refused. Without a terminal, --yes is required. Without a terminal, and
    with --all, --to or --expect-active is required too: otherwise a second run would move the queries back.

    \b
    Examples:
      tideover failover revenue
      tideover failover revenue clicks --to west
      tideover failover --all --to west --yes --reason "east is down"
      tideover failover revenue --expect-active east --yes -o json
    """
    flags = flags_of(ctx, queries, every, to, expect_active, consents, reason)
    _check_meant(flags, every=every, yes=yes)
    aims, moving = aims_of(ctx, flags, every=every), []
    for aim in aims:
        if _is_there(ctx, aim.query, flags.to):
            render.talk(f"{aim.query} is already there: nothing done")
        else:
            moving.append(aim)
    many = every or len(flags.queries) > 1
    if not moving:
        return nothing_done(output, many=many)
    asks = is_attended() and not yes
    if asks:
        _ask_person(ctx, moving, flags)
    if not wait and not is_led(ctx.store):
        raise UsageError(
            "no controller is running, so nothing would process this request", hint="run it again without --no-wait"
        )
    expected = {aim.query: aim.active for aim in moving if aim.active and (asks or flags.to is None)}
    if flags.expect_active is not None:
        expected = {aim.query: flags.expect_active for aim in moving}
    spec = RequestSpec(
        kind=OperationKind.FAILOVER,
        targets={aim.query: aim.target for aim in moving},
        expect_active=expected,
        actor=this_person(),
        reason=flags.reason,
        consents=flags.consents,
        runs={aim.query: aim.run for aim in moving},
        within=timedelta(seconds=timeout),
    )
    return _move(ctx, spec, wait=wait, timeout=timeout, output=output, many=many)


def _check_meant(flags: Flags, *, every: bool, yes: bool) -> None:
    """A script says what it believes, and ``--all`` where from or where to: typed twice it would move queries back."""
    is_said = flags.to is not None or flags.expect_active is not None
    if not is_attended() and not (yes and is_said):
        raise UsageError(
            "without a terminal, failover needs --yes and --to or --expect-active",
            hint="tideover failover QUERY --to CLUSTER --yes",
        )
    if every and not is_said:
        raise UsageError(
            "--all needs --to or --expect-active: without them, queries that have already moved would move back",
            hint="tideover failover --all --to CLUSTER, or tideover failover --all --expect-active CLUSTER",
        )


def _is_there(ctx: Context, name: str, to: str | None) -> bool:
    if not _is_on(ctx, name, to):
        return False
    is_asked_for = any(request.query == name for request in ctx.store.open_requests())
    return not is_asked_for and open_operation(ctx.store, name) is None


def _is_on(ctx: Context, name: str, cluster: str | None) -> bool:
    assignment = ctx.store.assignment(name)
    return assignment is not None and assignment.cluster == cluster


def _ask_person(ctx: Context, moving: Sequence[Aim], flags: Flags) -> None:
    """Show the plan, then ask; a consent is typed, so that it is not given in passing. Raises ``Refused``."""
    names = [aim.query for aim in moving]
    for request in ctx.store.open_requests():
        if request.query in names and request.target != flags.to and _is_on(ctx, request.query, flags.to):
            render.talk(f"{request.query}: this cancels request {request.id}, which has not begun")
    for name in names:
        for standing in ctx.store.operations(query=name, only_open=True, limit=1):
            if standing.source == flags.to and standing.phase in BEFORE_COMMIT:
                render.talk(f"{name}: this cancels operation {standing.id}, which is moving it to {standing.target}")
    for value in plans_of(ctx, moving, flags):
        render.talk(render.plan(value) + "\n")
    ask_yes(f"Move {', '.join(names)}?")
    for consent in dict.fromkeys(flags.consents):
        if consent == UNFENCED:
            for aim in moving:
                render.talk(
                    f"{aim.query}: the run that may still be writing: {run_name(aim.run) if aim.run else 'unknown'}"
                )
        ask_to_type(names[0] if len(names) == 1 else "all", f"{consent}: {CONSENTS[consent]}.")


def _move(ctx: Context, spec: RequestSpec, *, wait: bool, timeout: float, output: str, many: bool) -> int:
    store = ctx.store
    requests: tuple[Request, ...] = ()
    try:
        requests = submit(store, spec)  # a store that is lost now may have it, or a part of it
        if wait:
            _see_through(ctx, requests, seconds=timeout, actor=spec.actor)
        return result_of(store, standing_of(store, requests), output, many=many)
    except KeyboardInterrupt:
        raise OutcomeUnknown("interrupted: operations that have begun stay open", hint=_GO_ON, asked=requests) from None
    except StoreError as error:
        raise OutcomeUnknown(
            f"the store went away; operations that have begun stay open: {error}", hint=_GO_ON, asked=requests
        ) from error


def _see_through(ctx: Context, requests: tuple[Request, ...], *, seconds: float, actor: str) -> None:
    clock = SystemClock()
    work = RequestWait(
        store=ctx.store,
        settings=ctx.settings,
        logs=ctx.log,
        clock=clock,
        lead=Leadership(ctx.store, clock, this_process()),
        actor=actor,
        watch=Progress(ctx.store, requests, at_once=ctx.settings.operations.at_once).say,
    )
    work.see_through(requests, seconds=seconds)
    for operation, error in work.failures.items():
        render.talk(f"operation {operation} stays open: {error}" + (f" ({error.hint})" if error.hint else ""))
