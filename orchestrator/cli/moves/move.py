"""What every verb that moves queries does: it takes options, shows the plan, waits for a confirmation, writes requests,
and follows them.

Which queries go where, and with which consents, is worked out once: what is shown, confirmed and requested is the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from orchestrator.changes import Changes
from orchestrator.cli import plan_summary, render
from orchestrator.cli.context import Context, confirm, confirm_by_typing, is_attended, this_person
from orchestrator.cli.interpreter import keep_loaded
from orchestrator.cli.moves.next_step import say_next
from orchestrator.cli.moves.options import CONSENTS, Flags, How, Which
from orchestrator.cli.progress import MANY, Counts, Progress, nothing_done, result_of
from orchestrator.cli.selection import select
from orchestrator.decide.desk.plan_cost import cost
from orchestrator.decide.gates.automatic import default_target
from orchestrator.decide.gates.gate import UNFENCED, run_name
from orchestrator.decide.operation.turns import waves_of
from orchestrator.decide.phases import BEFORE_COMMIT, PLANNED
from orchestrator.errors import OutcomeUnknown, UsageError
from orchestrator.facts.current import moved_last, open_operation, run_of
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import plan_query
from orchestrator.lease import Leadership, is_led, this_process
from orchestrator.new_requests import RequestSpec, standing_of, submit
from orchestrator.operation.wait import Answered, RequestWait, answers_to
from state.errors import StoreError
from state.messages import Process
from state.model.entities import Operation, OperationKind, Request
from state.model.plan import Plan
from streaming.clocks import SystemClock


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """One query's move, worked out once: what is shown, confirmed and requested is the same."""

    query: str
    active: str | None
    """The cluster that the query is on, or is on its way from; None when it never ran."""
    target: str
    run: Process | None
    """The run that has to be proven stopped: a consent ``unfenced`` is given for this one."""


def flags_of(
    ctx: Context,
    kind: OperationKind,
    which: Which,
    *,
    to: str | None,
    reason: str = "",
    waves: tuple[int, ...] | None = None,
) -> Flags:
    """The options of a move, checked against the configuration. Raises ``UsageError`` and ``UnknownName``."""
    selected = select(ctx, which.queries, every=which.every, labels=which.labels)
    for cluster in (to, which.expect_active):
        if cluster is not None:
            ctx.known_cluster(cluster)
    names = ctx.chains.in_order(selected if kind is OperationKind.DRILL else with_companions(ctx, selected))
    if not names:
        raise UsageError("no query is declared", hint="add it under queries in the configuration")
    check_target(ctx, names, to)
    return Flags(
        queries=names, to=to, expect_active=which.expect_active, reason=reason, consents=which.consents,
        home=kind is OperationKind.FAILBACK, details=which.details,
        waves=ctx.settings.operations.waves if waves is None else waves,
    )  # fmt: skip


def with_companions(ctx: Context, names: Sequence[str]) -> tuple[str, ...]:
    """These queries, and the others of their applications, which move along; says which were added."""
    found = dict.fromkeys(names)
    for name in names:
        added = [each for each in ctx.settings.companions(name) if each not in found]
        if added:
            render.talk(f"{', '.join(added)} of the same application as {name}: moved along")
        found |= dict.fromkeys(added)
    return tuple(found)


def check_target(ctx: Context, queries: Iterable[str], to: str | None) -> None:
    """Raises ``UsageError`` where a query may not run on the cluster that is named for it."""
    for name in queries if to is not None else ():
        if to not in ctx.query(name).clusters:
            allowed = ", ".join(ctx.query(name).clusters)
            raise UsageError(f"{name} may not run on {to}", hint=f"queries.{name}.clusters allows {allowed}")


def aims_of(ctx: Context, flags: Flags, *, group: bool) -> list[Aim]:
    """What is to be moved, from where and to where; of a group only what is where ``--expect-active`` says."""
    aims = [_aim(ctx, name, flags.wanted(ctx.query(name))) for name in flags.queries]
    if not group or flags.expect_active is None:
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


def plans_of(ctx: Context, kind: OperationKind, aims: Iterable[Aim], flags: Flags) -> Iterator[Plan]:
    gatherer = FactGatherer(store=ctx.store, settings=ctx.settings, logs=ctx.log, clock=SystemClock())
    aims = list(aims)
    together = [aim.query for aim in aims] if kind in PLANNED else []
    waves = waves_of([aim.query for aim in aims], flags.waves) if flags.waves and len(aims) > 1 else {}
    for aim in aims:
        plan = plan_query(
            gatherer, kind, aim.query, aim.target,
            consents=frozenset(flags.consents), expect_active=flags.expect_active, parameters=flags.parameters,
        )  # fmt: skip
        first = ctx.chains.among(aim.query, together)
        yield replace(plan, after=tuple(first), wave=waves[aim.query] if waves else None)


def plans_text(ctx: Context, plans: Sequence[Plan], flags: Flags, moved: Sequence[Operation]) -> str:
    """Plans for people."""
    return plan_summary.said(plans, moved, at_once=ctx.settings.operations.at_once, details=flags.details)


def _question(ctx: Context, plans: Sequence[Plan], moved: Sequence[Operation]) -> str:
    """What a yes does, and what it costs."""
    ways = {(plan.source, plan.target) for plan in plans}
    names = ", ".join(plan.query for plan in plans)
    what = names if len(plans) <= plan_summary.MOST_WHOLE else f"these {len(plans)} queries"
    way = " from {} to {}".format(*ways.pop()) if len(ways) == 1 else ""
    return f"Move {what}{way}? {cost(plans, moved, at_once=ctx.settings.operations.at_once)}"


def say_circles(ctx: Context, kind: OperationKind, queries: Sequence[str]) -> None:
    """Say of which of these queries the order is unknown."""
    for circle in ctx.chains.circles if kind in PLANNED else ():
        if set(circle) <= set(queries):
            names = ", ".join(circle)
            render.talk(
                f"{names} read what they write in a circle: they are moved without an order; after: declares one"
            )


_GO_ON = "tideover list shows it; run the same command again to continue it"


def move(
    ctx: Context,
    kind: OperationKind,
    which: Which,
    how: How,
    *,
    waves: tuple[int, ...] | None,
    to: str | None = None,
) -> int:
    """Move queries by one kind of operation. Returns the exit code."""
    flags, group = flags_of(ctx, kind, which, to=to, reason=how.reason, waves=waves), which.group
    _check_meant(kind, flags, group=group, yes=how.yes)
    aims, moving = aims_of(ctx, flags, group=bool(group)), []
    for aim in aims:
        if _is_there(ctx, aim.query, flags.wanted(ctx.query(aim.query))):
            render.talk(f"{aim.query} is already there: nothing done")
        else:
            moving.append(aim)
    many = bool(group) or len(flags.queries) > 1
    if not moving:
        return nothing_done(how.output, many=many)
    needs_confirmation = is_attended() and not how.yes
    if needs_confirmation:
        _confirm(ctx, kind, moving, flags)
    check_led(ctx, wait=how.wait)
    expected = {
        aim.query: aim.active for aim in moving if aim.active and (needs_confirmation or not flags.names_target)
    }
    if flags.expect_active is not None:
        expected = {aim.query: flags.expect_active for aim in moving}
    spec = RequestSpec(
        kind=kind,
        targets={aim.query: aim.target for aim in moving},
        expect_active=expected,
        actor=this_person(),
        reason=flags.reason,
        consents=flags.consents,
        runs={aim.query: aim.run for aim in moving},
        within=timedelta(seconds=how.timeout),
        waves=flags.waves if len(moving) > 1 else (),
    )
    is_shown = how.wait and kind is OperationKind.FAILOVER
    return carry_out(ctx, spec, how, many=many, and_say=say_next if is_shown else _nothing_more)


def _check_meant(kind: OperationKind, flags: Flags, *, group: str, yes: bool) -> None:
    """A script says what it believes, and a group (``--all``, ``--label``) needs where from or where to.

    Typed twice it would move queries back otherwise.
    """
    is_said = flags.names_target or flags.expect_active is not None
    if not is_attended() and not (yes and is_said):
        command = f"tideover {kind} {group or ' '.join(flags.queries)}"
        if flags.names_target:
            where = f" --to {flags.to}" if flags.to is not None else ""
            raise UsageError(f"without a terminal, {kind} needs --yes", hint=f"{command}{where} --yes")
        raise UsageError(
            f"without a terminal, {kind} needs --yes and --to or --expect-active",
            hint=f"{command} --expect-active CLUSTER --yes",
        )
    if group and not is_said:
        raise UsageError(
            f"{group.partition(' ')[0]} needs --to or --expect-active: without them, queries that have already moved "
            "would move back",
            hint=f"tideover {kind} {group} --to CLUSTER, or tideover {kind} {group} --expect-active CLUSTER",
        )


def _is_there(ctx: Context, name: str, to: str | None) -> bool:
    if not _is_on(ctx, name, to):
        return False
    is_requested = any(request.query == name for request in ctx.store.open_requests())
    return not is_requested and open_operation(ctx.store, name) is None


def _is_on(ctx: Context, name: str, cluster: str | None) -> bool:
    assignment = ctx.store.assignment(name)
    return assignment is not None and assignment.cluster == cluster


def _confirm(ctx: Context, kind: OperationKind, moving: Sequence[Aim], flags: Flags) -> None:
    """Show the plan, then wait for a confirmation; a consent is typed, so that it is not given in passing. Raises
    ``Refused``.
    """
    names = [aim.query for aim in moving]
    for request in ctx.store.open_requests():
        wanted = flags.wanted(ctx.query(request.query)) if request.query in names else None
        if wanted is not None and request.target != wanted and _is_on(ctx, request.query, wanted):
            render.talk(f"{request.query}: this cancels request {request.id}, which has not begun")
    for name in names:
        for standing in ctx.store.operations(query=name, only_open=True, limit=1):
            if standing.source == flags.wanted(ctx.query(name)) and standing.phase in BEFORE_COMMIT:
                render.talk(f"{name}: this cancels operation {standing.id}, which is moving it to {standing.target}")
    plans, moved = list(plans_of(ctx, kind, moving, flags)), moved_last(ctx.store)
    render.talk(plans_text(ctx, plans, flags, moved) + "\n")
    say_circles(ctx, kind, names)
    confirm(_question(ctx, plans, moved))
    confirm_consents(moving, flags)


def confirm_consents(moving: Sequence[Aim], flags: Flags) -> None:
    """Have each consent typed. Raises ``Refused``."""
    names = [aim.query for aim in moving]
    for consent in dict.fromkeys(flags.consents):
        if consent == UNFENCED:
            for aim in moving:
                render.talk(
                    f"{aim.query}: the run that may still be writing: {run_name(aim.run) if aim.run else 'unknown'}"
                )
        confirm_by_typing(names[0] if len(names) == 1 else "all", f"{consent}: {CONSENTS[consent]}.")


def check_led(ctx: Context, *, wait: bool) -> None:
    """Who does not wait needs a controller. Raises ``UsageError``."""
    if not wait and not is_led(ctx.store):
        raise UsageError(
            "no controller is running, so nothing would process this request", hint="run it again without --no-wait"
        )


def _nothing_more(_: Sequence[Answered]) -> None:
    pass


def carry_out(
    ctx: Context,
    spec: RequestSpec,
    how: How,
    *,
    many: bool,
    what: str = "operations",
    go_on: str = _GO_ON,
    and_say: Callable[[Sequence[Answered]], None] = _nothing_more,
) -> int:
    """Write the requests, follow them, and print what became of them; returns the exit code.

    ``what`` stays open where it is interrupted, and ``go_on`` is what to type then.
    """
    store = ctx.store
    requests: tuple[Request, ...] = ()
    try:
        requests = submit(store, spec)  # a store that is lost now may have it, or a part of it
        if how.wait:
            follow(ctx, requests, seconds=how.timeout, actor=spec.actor)
        requests = standing_of(store, requests)
        answered = answers_to(store, requests)
        code = result_of(store, answered, how.output, many=many)
        and_say(answered)
        return code
    except KeyboardInterrupt:
        raise OutcomeUnknown(f"interrupted: {what} that have begun stay open", hint=go_on, requested=requests) from None
    except StoreError as error:
        text = f"the store went away; {what} that have begun stay open: {error}"
        raise OutcomeUnknown(text, hint=go_on, requested=requests) from error


def follow(ctx: Context, requests: tuple[Request, ...], *, seconds: float, actor: str) -> None:
    """See requests through, here or by the leading controller, and say each line of their history as it is written."""
    keep_loaded()
    clock = SystemClock()
    kind = Counts if len(requests) > MANY else Progress
    progress = kind(ctx.store, requests, at_once=ctx.settings.operations.at_once, upstream=ctx.chains.upstream)
    work = RequestWait(
        store=ctx.store,
        settings=ctx.settings,
        logs=ctx.log,
        clock=clock,
        lead=Leadership(ctx.store, clock, this_process()),
        actor=actor,
        changes=Changes(ctx.store),
        watch=progress.say,
    )
    try:
        work.see_through(requests, seconds=seconds)
    finally:
        progress.close()
    for operation, error in work.failures.items():
        render.talk(f"operation {operation} stays open: {error}" + (f" ({error.hint})" if error.hint else ""))
