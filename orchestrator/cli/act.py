"""Verbs that move queries, and their plan: ``plan failover`` and ``failover``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import click

from orchestrator.cli import options, render
from orchestrator.cli.answer import answer, nothing_done
from orchestrator.cli.person import ask_to_type, ask_yes, is_attended, this_person
from orchestrator.cli.progress import Progress
from orchestrator.cli.world import World, pass_world
from orchestrator.clock import Clock, SystemClock
from orchestrator.decide.phases import BEFORE_COMMIT
from orchestrator.errors import ExitCode, OutcomeUnknown, UsageError
from orchestrator.lease import Lead
from orchestrator.places import Places
from orchestrator.planning import plan_query
from orchestrator.process import this_process
from orchestrator.requests import Wish, ask, default_target, standing_of
from orchestrator.work import Work
from state.errors import StoreError
from state.model import OperationKind, Request

CONSENTS = {
    "unfenced": "start although nothing proves that the old run has stopped: it may still write",
    "repeats": "records may be read twice",
    "loss": "records that the standby lacks are left behind",
    "gap": "records that the standby has deleted already are skipped",
    "fresh": "the state, or batches that the sink drops by id, are lost",
}

_GO_ON = "tideover list shows it, and the same command goes on with it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """The common flags of a move, as given."""

    queries: tuple[str, ...]
    to: str | None
    expect_active: str | None
    reason: str
    consents: tuple[str, ...]


def _which(command: options.Command) -> options.Command:
    """The queries or all, the target, what is believed now, and consents."""
    for decorate in (
        click.option("--consent", "consents", type=click.Choice(list(CONSENTS)), multiple=True,
                     help="Accept a risk that a gate names; may be repeated."),
        click.option("--expect-active", metavar="CLUSTER", help="Act only on queries that are on CLUSTER now."),
        click.option("--to", metavar="CLUSTER", help="Where to. Default: the next in the query's clusters."),
        click.option("--all", "every", is_flag=True, help="Every declared query."),
        click.argument("queries", nargs=-1, metavar="[QUERY]..."),
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
    queries: tuple[str, ...],
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
    flags = _flags(world, queries, every, to, expect_active, consents, "")
    plans = list(_plans(world, flags.queries, flags))
    _print_plans(plans, output, many=every or len(flags.queries) > 1)
    return ExitCode.REFUSED if any(_is_turned_down(world, value) for value in plans) else ExitCode.DONE


@click.command()
@_which
@options.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the operation to its end.")
@click.option("--timeout", type=options.Seconds(1, 86_400), default=120.0, show_default=True, metavar="SECONDS",
              help="How long to wait: what has begun by then stays open, nothing begins later.")  # fmt: skip
@options.output
@pass_world
def failover(
    world: World,
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
    """Move queries to their standby, with their state, to the place where they stood.

    Already there: exit 0, nothing done. An open operation of the query is joined. Without a terminal,
    --yes and one of --to and --expect-active are needed.

    \b
    Examples:
      tideover failover revenue
      tideover failover revenue clicks --to west
      tideover failover --all --to west --yes --reason "east is down"
      tideover failover revenue --expect-active east --yes -o json
    """
    flags = _flags(world, queries, every, to, expect_active, consents, reason)
    _check_unattended(flags, yes=yes)
    moving = tuple(name for name in flags.queries if not _is_there(world, name, flags.to))
    for name in flags.queries:
        if name not in moving:
            render.talk(f"{name} is already there: nothing done")
    if not moving:
        return nothing_done(output, many=every or len(flags.queries) > 1)
    if is_attended() and not yes:
        _ask_person(world, moving, flags)
    return _move(world, moving, flags, wait=wait, timeout=timeout, output=output, many=every or len(flags.queries) > 1)


def _flags(
    world: World,
    queries: tuple[str, ...],
    every: bool,
    to: str | None,
    expect_active: str | None,
    consents: tuple[str, ...],
    reason: str,
) -> Flags:
    options.check_some_or_all(world, queries, every=every)
    for cluster in (to, expect_active):
        if cluster is not None:
            world.known_cluster(cluster)
    names = tuple(dict.fromkeys(queries)) or tuple(world.settings.queries)
    if not names:
        raise UsageError("no query is declared", hint="declare queries in the configuration")
    for name in names if to is not None else ():
        if to not in world.query(name).clusters:
            allowed = ", ".join(world.query(name).clusters)
            raise UsageError(f"{name} may not run on {to}", hint=f"its clusters are {allowed}")
    return Flags(queries=names, to=to, expect_active=expect_active, reason=reason, consents=consents)


def _check_unattended(flags: Flags, *, yes: bool) -> None:
    if is_attended():
        return
    if not yes or (flags.to is None and flags.expect_active is None):
        raise UsageError(
            "without a terminal a move needs --yes and one of --to and --expect-active",
            hint="so that a script says what it believes: tideover failover QUERY --to CLUSTER --yes",
        )


def _is_there(world: World, name: str, to: str | None) -> bool:
    if not _is_on(world, name, to):
        return False
    is_asked_for = any(request.query == name for request in world.store.open_requests())
    return not is_asked_for and not world.store.operations(query=name, only_open=True, limit=1)


def _is_on(world: World, name: str, cluster: str | None) -> bool:
    assignment = world.store.assignment(name)
    return assignment is not None and assignment.cluster == cluster


def _target(world: World, name: str, flags: Flags) -> str:
    """Where to: as typed, else where an open operation goes already, else the next of the query's clusters."""
    query, assignment = world.query(name), world.store.assignment(name)
    standing = next(iter(world.store.operations(query=name, only_open=True, limit=1)), None)
    if flags.to is None and standing is not None:
        return standing.target
    return flags.to or default_target(query, assignment.cluster if assignment else query.clusters[0])


def _plans(world: World, names: tuple[str, ...], flags: Flags) -> Iterator[dict[str, object]]:
    places = Places(store=world.store, settings=world.settings, logs=world.log, clock=SystemClock())
    for name in names:
        yield plan_query(
            places, OperationKind.FAILOVER, name, _target(world, name, flags),
            consents=frozenset(flags.consents), expect_active=flags.expect_active,
        )  # fmt: skip


def _is_turned_down(world: World, value: Mapping[str, object]) -> bool:
    """Whether the move itself would be refused: a query that is there already is left, an open operation joined."""
    gates = value["gates"]
    assert isinstance(gates, list)
    refused = next((gate["name"] for gate in gates if not gate["ok"]), None)
    if refused == "no-operation-open":
        (standing,) = world.store.operations(query=str(value["query"]), only_open=True, limit=1) or (None,)
        return standing is not None and standing.target != value["to"]
    return refused not in {None, "not-already-there"}


def _print_plans(plans: list[dict[str, object]], output: str, *, many: bool) -> None:
    if output in {"json", "yaml"}:
        render.document(plans if many else plans[0], output)
    elif output == "tsv":
        found = [{**row, "query": value["query"]} for value in plans for row in render.rows_of(value)]
        render.show(found, output, columns=("query", *render.PARTITION_COLUMNS))
        for line in render.refusals(plans):
            render.talk(line)
    else:
        render.say("\n\n".join(render.plan(value) for value in plans))


def _ask_person(world: World, moving: tuple[str, ...], flags: Flags) -> None:
    """Show the plan, then ask; a consent is typed, so that it is not given in passing. Raises ``Refused``."""
    for request in world.store.open_requests():
        if request.query in moving and request.target != flags.to and _is_on(world, request.query, flags.to):
            render.talk(f"{request.query}: this calls off request {request.id}, which has not begun")
    for name in moving:
        for standing in world.store.operations(query=name, only_open=True, limit=1):
            if standing.source == flags.to and standing.phase in BEFORE_COMMIT:
                render.talk(f"{name}: this calls off operation {standing.id}, on its way to {standing.target}")
    for value in _plans(world, moving, flags):
        render.talk(render.plan(value) + "\n")
    ask_yes(f"Move {', '.join(moving)}?")
    for consent in dict.fromkeys(flags.consents):
        ask_to_type(moving[0] if len(moving) == 1 else "all", f"{consent}: {CONSENTS[consent]}.")


def _move(
    world: World, moving: tuple[str, ...], flags: Flags, *, wait: bool, timeout: float, output: str, many: bool
) -> int:
    clock, store = SystemClock(), world.store
    actor = this_person()
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
        within=timedelta(seconds=timeout),
    )
    requests: tuple[Request, ...] = ()
    try:
        requests = ask(store, wish)  # a store that is lost now may have it, or a part of it
        if wait:
            _see_through(world, requests, lead, clock, seconds=timeout, actor=actor)
        return answer(store, standing_of(store, requests), output, many=many)
    except KeyboardInterrupt:
        raise OutcomeUnknown("interrupted: what was begun stays open", hint=_GO_ON, asked=requests) from None
    except StoreError as error:
        raise OutcomeUnknown(f"what was begun stays open: {error}", hint=_GO_ON, asked=requests) from error


def _see_through(
    world: World, requests: tuple[Request, ...], lead: Lead, clock: Clock, *, seconds: float, actor: str
) -> None:
    work = Work(
        store=world.store,
        settings=world.settings,
        logs=world.log,
        clock=clock,
        lead=lead,
        actor=actor,
        watch=Progress(world.store, requests, at_once=world.settings.operations.at_once).say,
    )
    work.see_through(requests, seconds=seconds)
    for operation, error in work.failures.items():
        render.talk(f"operation {operation} stays open: {error}" + (f" ({error.hint})" if error.hint else ""))
