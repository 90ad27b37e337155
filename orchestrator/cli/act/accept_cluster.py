"""``accept-cluster``: let another Kafka cluster have a name."""

from dataclasses import dataclass

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, confirm, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.errors import ExitCode, Refused, UnknownName
from state.errors import Conflict
from state.model.entities import Event
from state.model.pins import Pin, key_of_id
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore
from streaming.cluster_log import ClusterLog
from streaming.errors import NotHere, WrongCluster

_COLUMNS = ("cluster", "id", "former", "left_behind")
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Successor:
    """A cluster that may take a name over."""

    pin: Pin
    """Of the cluster that has it."""
    id: str
    queries: tuple[str, ...]
    """Those that are placed on the cluster that has it: they do not run on this one."""


@click.command(name="accept-cluster")
@click.argument("cluster", shell_complete=context.complete_cluster)
@context.reason
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def accept_cluster(ctx: Context, cluster: str, reason: str, yes: bool, output: str) -> int:
    """Confirm that a cluster was replaced on purpose: the cluster that answers under this name now is the right one.

    Until you do, nothing runs on it and no query moves to it or from it (gate cluster-identity). A query that last ran
    on the former cluster does not start on the new one, because its offsets mean other records there. Fail it over;
    a failback can bring it back. Refused (exit 1) while clusters.NAME.id in the configuration says otherwise;
    not possible (exit 2) while a query is moving to or from the cluster. The id has not changed: exit 0, nothing done.

    \b
    Examples:
      tideover accept-cluster east
      tideover accept-cluster east --yes --reason "rebuilt after the fire"
    """
    ctx.known_cluster(cluster)
    store = ctx.store  # first: what is pinned there, the link must know
    found = successor_of(store, ctx.settings, ctx.log(cluster), cluster)
    if found is None:
        render.talk(f"the id of {cluster} has not changed: nothing done")
        return ExitCode.DONE
    left = [
        f"{query} last ran on the former cluster {found.pin.id}; after this, type tideover failover {query}"
        for query in found.queries
    ]
    for line in left:
        render.talk(line)
    if not yes:
        require_person(hint="to see what it affects first: tideover check")
        confirm(f"{cluster} was the cluster with id {found.pin.id}. Accept the one with id {found.id} in its place?")
    with unknown_if_lost(f"the new id of {cluster}", hint="run the command again: it is safe to repeat"):
        accept(store, found, actor=this_person(), reason=reason)
    row = {"cluster": cluster, "id": found.id, "former": found.pin.id, "left_behind": list(found.queries)}
    render.show([row], output, columns=_COLUMNS)
    return ExitCode.DONE


def successor_of(store: RunnerStore, settings: Tideover, log: ClusterLog, cluster: str) -> Successor | None:
    """What answers under a name in place of the cluster that has it; None where that one does.

    Raises ``Refused`` where the configuration names yet another one, ``UnknownName`` and ``KafkaError``.
    """
    pin = next((pin for pin in store.pins() if pin.cluster == cluster), None)
    if pin is None:
        raise UnknownName(
            f"no runner or controller has reached {cluster} yet",
            hint="start one: it records the cluster id that it sees",
        )
    try:
        log.describe([], timeout=_LOOK_SECONDS)
    except NotHere as away:
        raise Refused(str(away), hint="there is nothing to accept; move the queries: tideover failover") from None
    except WrongCluster as wrong:
        seen = wrong.seen
    else:
        return None
    declared, endpoint = settings.clusters[cluster].id, settings.clusters[cluster].endpoint
    if declared not in {None, seen}:
        raise Refused(
            f"{cluster} leads to cluster {seen}, but {key_of_id(cluster, endpoint)} says {declared}",
            hint=f"write id: {seen} there, restart runners and controllers, then run the command again",
        )
    here = tuple(row.query for row in store.assignments() if row.cluster == cluster)
    return Successor(pin=pin, id=seen, queries=here)


def accept(store: ControllerStore, successor: Successor, *, actor: str, reason: str) -> Pin:
    """Give it the name. Raises ``Conflict`` while a query moves there or from there, or where another process was
    faster.
    """
    cluster, former = successor.pin.cluster, successor.pin.id
    event = Event(
        sequence=None,
        at=store.now(),
        kind="accept-cluster",
        query=None,
        operation=None,
        epoch=None,
        actor=actor,
        text=f"{cluster} is cluster {successor.id}, no longer {former}" + (f": {reason}" if reason else ""),
        detail={"cluster": cluster, "id": successor.id, "former": former, "reason": reason},
    )
    pin = store.replace_pin(cluster, former=former, new=successor.id, event=event)
    if pin is None:
        raise Conflict(
            f"the id of {cluster} was changed in the meantime: nothing was saved",
            hint="see tideover history, then run the command again",
        )
    return pin
